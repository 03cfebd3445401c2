package main

import (
	"bytes"
	"fmt"
)

// A result is what others published for a data set without public images, at δ = 1e-5 where that could be read.
type result struct {
	data     string
	accuracy map[float64]float64 // ε → percent
	by       string
	uses     string // beside the training files
	source   string
	seen     string // where the figures were read
}

const (
	inSource   = "paper or code"
	inAbstract = "abstract alone"
	inDispute  = "paper or code, accounting disputed"
)

const (
	scatterNet = "F. Tramèr, D. Boneh, ICLR 2021, arXiv 2011.11660"
	selective  = "J. Fu and others (DPSUR), VLDB 2024, arXiv 2311.14056; disputed by arXiv 2606.04384"
	byScale    = "S. De and others, 2022, arXiv 2204.13650"
	again      = "W. Bao, V. Bindschaedler, ACSAC 2024, arXiv 2508.15141"
	processes  = "X. Tang and others (DP-RandP), NeurIPS 2023, arXiv 2306.06076"
)

var published = []result{
	{"mnist", map[float64]float64{3: 98.7}, "ScatterNet", "scattering", scatterNet, inSource},
	{"mnist", map[float64]float64{1: 97.93, 2: 98.70, 3: 98.88, 4: 98.95}, "DPSUR", "scattering", selective, inDispute},

	{"fmnist", map[float64]float64{3: 89.7}, "ScatterNet", "scattering", scatterNet, inSource},
	{"fmnist", map[float64]float64{1: 88.38, 2: 89.34, 3: 89.71, 4: 90.18}, "DPSUR", "scattering", selective, inDispute},

	{"cifar10", map[float64]float64{3: 69.3}, "ScatterNet", "scattering", scatterNet, inSource},
	{"cifar10", map[float64]float64{1: 60.9, 2: 67.0, 4: 69.7, 8: 72.4}, "ScatterNet, run again", "scattering", again, inSource},
	{"cifar10", map[float64]float64{1: 64.41, 2: 69.40, 3: 70.83, 4: 71.45}, "DPSUR", "scattering", selective, inDispute},
	{"cifar10", map[float64]float64{1: 56.8, 2: 65.9, 4: 73.5, 8: 81.4}, "De et al., on accelerators", "wide residual network, 16 views of a record", byScale, inSource},
	{"cifar10", map[float64]float64{1: 56.8, 2: 62.9, 4: 69.5, 8: 78.7}, "De et al., run again", "wide residual network, 16 views of a record", again, inSource},
	{"cifar10", map[float64]float64{1: 57.2, 8: 79.8}, "DP-Mix, run again", "the same, with mixed views", again, inSource},
	{"cifar10", map[float64]float64{1: 72.3}, "DP-RandP, pretraining on a GPU", "network pretrained on synthetic images", processes, inAbstract},
	{"cifar10", map[float64]float64{8: 82.5}, "ScaleNorm", "wide residual network", "H. Klause and others, 2022, arXiv 2203.00324", inAbstract},
	{"cifar10", map[float64]float64{8: 84.8}, "DP-MicroAdam", "wide residual network, views, average of weights", "M. Hudişteanu and others, abstract at a workshop of NeurIPS 2025; arXiv 2511.20509 claims \"competitive or superior\" accuracy", inAbstract},
}

// mostPublished is the most accurate of them, without those whose accounting is disputed.
func mostPublished(data string, epsilon float64) (most result, found bool) {
	for _, r := range published {
		if r.data == data && r.seen != inDispute && r.accuracy[epsilon] > most.accuracy[epsilon] {
			most, found = r, true
		}
	}
	return most, found
}

// besideTable sets our rows beside what was published.
func besideTable(all []measured, o options) string {
	var b bytes.Buffer
	b.WriteString("| data set | method |")
	for _, epsilon := range o.epsilons {
		fmt.Fprintf(&b, " ε = %g |", epsilon)
	}
	b.WriteString(" beside the training files it uses | source | figures read in |\n|---|---|")
	for range o.epsilons {
		b.WriteString("---|")
	}
	b.WriteString("---|---|---|\n")
	for _, data := range o.sets {
		fmt.Fprintf(&b, "| %s | **privgrad** |", names[data])
		runs := 0
		for _, epsilon := range o.epsilons {
			c := of(all, data, data, epsilon)
			if runs += c.runs; c.runs > 0 {
				fmt.Fprintf(&b, " **%.2f** |", c.accuracy)
			} else {
				b.WriteString(" – |")
			}
		}
		fmt.Fprintf(&b, " features from formulas and synthetic images | [accuracy](accuracy.md) | %d runs |\n", runs)
		for _, r := range published {
			if r.data != data {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s |", names[data], r.by)
			for _, epsilon := range o.epsilons {
				if x, ok := r.accuracy[epsilon]; ok {
					fmt.Fprintf(&b, " %.4g |", x)
				} else {
					b.WriteString(" – |")
				}
			}
			fmt.Fprintf(&b, " %s | %s | %s |\n", r.uses, r.source, r.seen)
		}
	}
	return b.String()
}
