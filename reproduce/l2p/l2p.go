// Package l2p has the figures of Hong et al. 2021, whose method is L2P: learned
// protection.
package l2p

import "github.com/privgrad/privgrad/reproduce"

const hong = "Hong et al. 2021, Learning to protect (L2P)"

// Figures lists those of the paper.
func Figures() []reproduce.Figure { return []reproduce.Figure{fig6, fig7, fig8, mnist35, table1} }
