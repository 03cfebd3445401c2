// Package blsgd has the figures of Chen and Lee 2020, whose method is DP-BLSGD: a line
// search by backtracking under differential privacy.
package blsgd

import "github.com/privgrad/privgrad/reproduce"

const chenLee = "Chen and Lee 2020, Stochastic adaptive line search for differentially private optimization"

// Figures lists those of the paper, and a table of our own.
func Figures() []reproduce.Figure { return []reproduce.Figure{fig1, fig2, fig3, fig4, fig5, rates} }
