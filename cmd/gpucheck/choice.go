package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/bench/compare"
	"github.com/privgrad/privgrad/internal/device"
)

// A choice is what is measured, each list in the order in which it is gone through.
type choice struct {
	workloads         []workload
	precisions, peers []string
}

// usualBatch stands for each model's own number of records.
const usualBatch = "usual"

// usual says whether a workload has its model's own batch.
func (m workload) usual() bool { return slices.Contains(measured, m) }

// suffix tells workloads of a model apart.
func (m workload) suffix() string {
	if m.usual() {
		return ""
	}
	return " " + strconv.Itoa(m.batch)
}

// choose reads lists with commas between; an empty one is the default.
func choose(models, batches, precisions, peers string) (c choice, err error) {
	var names []string
	for _, m := range measured {
		names = append(names, m.model)
	}
	if names, err = listed("model", models, names, names); err != nil {
		return c, err
	}
	if c.precisions, err = listed("precision", precisions, device.Precisions(), device.Precisions()); err != nil {
		return c, err
	}
	if c.peers, err = listed("peer", peers, rivals, compare.Peers()); err != nil {
		return c, err
	}
	if batches == "" {
		batches = usualBatch + "," + strconv.Itoa(large)
	}
	for _, text := range strings.Split(batches, ",") {
		n, err := strconv.Atoi(text)
		if text != usualBatch && (err != nil || n < 1) {
			return c, fmt.Errorf("batch %q: give %s, or a number of records", text, usualBatch)
		}
		for _, m := range measured {
			if !slices.Contains(names, m.model) {
				continue
			}
			if text != usualBatch {
				m.batch = n
			}
			if !slices.Contains(c.workloads, m) {
				c.workloads = append(c.workloads, m)
			}
		}
	}
	return c, nil
}

// listed reads a list of names of which there are some.
func listed(what, text string, usual, known []string) ([]string, error) {
	if text == "" {
		return usual, nil
	}
	names := strings.Split(text, ",")
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no %s %q: choose of %s", what, name, strings.Join(known, ", "))
		}
	}
	return names, nil
}
