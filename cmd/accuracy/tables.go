package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/train"
)

// A table is the training records of a published one, perhaps with other columns.
type table struct {
	name, file, schema string
	change             func(row []float32, random *rand.Rand) []float32 // nil: none
	target             int                                              // the column that takes the label's place; -1: none
}

var allTables = []table{
	{"adult", "adult.data.gz", "adult", nil, -1},
	{"adult-numbers", "adult.data.gz", "adult", adultNumbers, -1},
	{"credit-card", "UCI_Credit_Card.csv.gz", "credit-card", nil, -1},
	{"wine-red", "winequality-red.csv.gz", "wine-red", nil, -1},
	{"wine-white", "winequality-white.csv.gz", "wine-white", nil, -1},
	{"wine", "winequality-red.csv.gz", "wine", nil, -1},
	{"wine-sugar", "winequality-red.csv.gz", "wine", nil, 3},
	{"credit-limit", "UCI_Credit_Card.csv.gz", "credit-card", nil, 0},
	{"adult-crossed", "adult.data.gz", "adult", adultCrossed, -1},
	{"adult-random", "adult.data.gz", "adult", moreRandom, -1},
}

func adultNumbers(row []float32, _ *rand.Rand) []float32 {
	n := len(row)
	return []float32{row[0], row[10], row[27], row[n-45], row[n-44], row[n-43]} // in front of hours are gain and loss, behind them 42 countries
}

// adultCrossed adds each education with each marital status and occupation.
func adultCrossed(row []float32, _ *rand.Rand) []float32 {
	all := slices.Clone(row)
	for _, a := range row[11:27] {
		for _, b := range row[28:50] {
			all = append(all, a*b)
		}
	}
	return all
}

// moreRandom adds 400 numbers that say nothing.
func moreRandom(row []float32, random *rand.Rand) []float32 {
	all := slices.Clone(row)
	for range 400 {
		all = append(all, random.Float32())
	}
	return all
}

// open gives the table's training records in a random order. A fifth takes the place of the test records.
func (t table) open(dir string) (*datasets.Set, error) {
	set, err := tabular.Open(filepath.Join(dir, t.file), tabular.Options{Schema: t.schema})
	if err != nil {
		return nil, err
	}
	from, random := set.Train, rand.New(rand.NewPCG(1, 2))
	n, w := from.Len(), from.Shape[2]
	to := datasets.Split{Unit: true}
	for _, r := range random.Perm(n) {
		row := slices.Clone(from.Values[r*w : r*w+w])
		switch {
		case t.target >= 0:
			to.Targets = append(to.Targets, row[t.target])
			row = slices.Delete(row, t.target, t.target+1)
		case set.Classes == 0:
			to.Targets = append(to.Targets, from.Targets[r])
		default:
			to.Labels = append(to.Labels, from.Labels[r])
		}
		if t.change != nil {
			row = t.change(row, random)
		}
		to.Values, to.Shape = append(to.Values, row...), [3]int{1, 1, len(row)}
	}
	if t.target >= 0 {
		set.Classes, set.ClassNames = 0, nil
	}
	set.Test, set.Train = part(to, 0, min(n/5, 4000)), part(to, n/5, n)
	set.Name, set.TestIsPublic, set.Share, set.PerClass = t.name, true, 1, nil
	return set, nil
}

func part(s datasets.Split, from, to int) datasets.Split {
	w := s.Shape[2]
	s.Values = s.Values[from*w : to*w]
	if s.Targets != nil {
		s.Targets = s.Targets[from:to]
	} else {
		s.Labels = s.Labels[from:to]
	}
	return s
}

// spread is half the variance of the targets, the loss of who knows their mean alone.
func spread(s datasets.Split) float64 {
	var sum, squares float64
	for _, y := range s.Targets {
		sum, squares = sum+float64(y), squares+float64(y)*float64(y)
	}
	n := float64(len(s.Targets))
	return (squares/n - sum/n*(sum/n)) / 2
}

// A tableTrial is the rule's settings, with its reach or its clip norm times a factor;
// or the defaults that tables had before there was a rule.
type tableTrial struct {
	recipes.Settings
	note    string
	epsilon float64
}

const rule, before = "rule", "before"

func tableTrials(t recipes.Table, epsilon float64) (all []tableTrial) {
	r := recipes.ForTable(t, epsilon).Settings
	for _, by := range []struct{ reach, clip float64 }{{1, 1}, {0.25, 1}, {0.5, 1}, {2, 1}, {4, 1}, {1, 0.5}, {1, 2}} {
		s, note := r, rule
		if s.Clip, s.LR = r.Clip*by.clip, r.LR*by.reach/by.clip; by.clip != 1 || by.reach != 1 {
			note = fmt.Sprintf("reach × %g, clip × %g", by.reach, by.clip)
		}
		all = append(all, tableTrial{s, note, epsilon})
	}
	old := withoutRule(t, r.Model)
	if old.LR = 0.5; t.Classes == 0 {
		old.LR = 0.02
	}
	return append(all, tableTrial{old, before, epsilon})
}

// withoutRule are the defaults of a model, but for the rate.
func withoutRule(t recipes.Table, model string) recipes.Settings {
	q := min(1, 1024/float64(t.Records))
	return recipes.Settings{Optimizer: "dp-sgd", Model: model, Clip: 1, LRSchedule: "constant", SamplingRate: q, Epochs: 20}
}

var tablesHead = []string{
	"note", "data", "records", "features", "classes", "epsilon", "lr", "momentum", "clip", "sampling_rate", "epochs", "feature_norm", "seed", "held_out_accuracy", "held_out_loss",
}

// tables makes the trials that are not yet in the file, and then says what they tell.
func tables(ctx context.Context, o options) error {
	done, err := o.makeTrials(ctx, tablesFile, allTables, func(m sample) []tableTrial {
		var all []tableTrial
		for _, epsilon := range []float64{0.3, 1, 3, 8} {
			all = append(all, tableTrials(m.public(), epsilon)...)
		}
		return all
	})
	if err == nil {
		fmt.Print(compared(done, rule, before))
	}
	return err
}

// makeTrials makes those of some tables that are not yet in a file, and gives the lines of all.
func (o options) makeTrials(ctx context.Context, file string, of []table, trials func(sample) []tableTrial) (done [][]string, err error) {
	if done, err = readCSV(file); err != nil {
		return nil, err
	}
	for _, t := range of {
		set, err := t.open(filepath.Join(o.data, "tabular"))
		if err != nil {
			return nil, err
		}
		for _, m := range parts(set, o.seeds) {
			for _, trial := range trials(m) {
				f := trial.fields(m)
				if slices.ContainsFunc(done, func(d []string) bool { return slices.Equal(d[:len(f)], f) }) {
					continue
				}
				accuracy, loss, err := fitTable(ctx, m, trial.Settings, trial.epsilon)
				if err != nil {
					return nil, err
				}
				f = append(f, text(accuracy), text(loss))
				if err := add(file, tablesHead, f); err != nil {
					return nil, err
				}
				done = append(done, f)
			}
		}
	}
	return done, nil
}

// A sample is some of a table's records.
type sample struct {
	*datasets.Set
	seed int
}

// parts are samples of several sizes; of the small ones there are up to so many.
func parts(set *datasets.Set, seeds int) (all []sample) {
	last := 0
	for _, records := range []int{400, 2000, 8000, 24000} {
		records = min(records, set.Train.Len())
		if records == last || records*set.Train.Shape[2] > 1e6 { // which takes too long
			continue
		}
		last = records
		for seed := 1; seed <= max(1, min(seeds, 4000/records)); seed++ {
			from := (seed - 1) * records % (set.Train.Len() - records + 1)
			m := *set
			m.Train, m.PublicN = part(set.Train, from, from+records), records
			all = append(all, sample{&m, seed})
		}
	}
	return all
}

func (m sample) public() recipes.Table {
	return recipes.Table{Records: m.PublicN, Features: m.Train.Shape[2], Classes: m.Classes}
}

func (t tableTrial) fields(m sample) []string {
	return []string{
		t.note, m.Name, fmt.Sprint(m.PublicN), fmt.Sprint(m.Train.Shape[2]), fmt.Sprint(m.Classes), text(t.epsilon), text(t.LR), text(t.Momentum), text(t.Clip),
		text(t.SamplingRate), text(t.Epochs), text(t.FeatureNorm), fmt.Sprint(m.seed),
	}
}

// compared sets a rule beside the best trial, and beside what was there before, of each table, size and ε: by accuracy, or by loss in a regression.
func compared(rows [][]string, rule, before string) string {
	type cell struct{ table, epsilon string }
	var cells []cell
	sums, counts := map[cell]map[string]float64{}, map[cell]map[string]float64{}
	for _, f := range rows {
		c := cell{strings.Join(f[1:5], ","), f[5]}
		if sums[c] == nil {
			sums[c], counts[c] = map[string]float64{}, map[string]float64{}
			cells = append(cells, c)
		}
		value, _ := strconv.ParseFloat(f[13], 64)
		if f[4] == "0" {
			value, _ = strconv.ParseFloat(f[14], 64)
			value = -value
		}
		sums[c][f[0]] += value
		counts[c][f[0]]++
	}
	var b strings.Builder
	short, n := map[string]float64{}, map[string]float64{}
	for _, c := range cells {
		best, name := math.Inf(-1), ""
		for note, sum := range sums[c] {
			if v := sum / counts[c][note]; v > best || v == best && note < name {
				best, name = v, note
			}
		}
		of := func(note string) float64 { return sums[c][note] / counts[c][note] }
		kind := "accuracy"
		if of(rule) < 0 {
			kind = "loss/mean's"
		}
		fmt.Fprintf(&b, "%s ε %s: %s %.4g, best %.4g (%s), %s %.4g\n", c.table, c.epsilon, rule, math.Abs(of(rule)), math.Abs(best), name, before, math.Abs(of(before)))
		for note := range sums[c] {
			short[kind+" "+note] += min(best-of(note), 1)
			n[kind+" "+note]++
		}
	}
	fmt.Fprintln(&b, "how far each is from the best, on average over all tables, sizes and ε:")
	for _, note := range slices.Sorted(maps.Keys(short)) {
		fmt.Fprintf(&b, "  %.4f  %s\n", short[note]/n[note], note)
	}
	return b.String()
}

// noise multipliers, which take a while to find
var calibrated = map[[4]float64]float64{}

// fitTable trains and gives the accuracy, of classes, and the loss on the held-out records: of a regression as a
// share of what who knows only their mean would lose.
func fitTable(ctx context.Context, set sample, r recipes.Settings, epsilon float64) (accuracy, loss float64, err error) {
	delta := math.Pow(10, math.Floor(math.Log10(0.1/float64(set.PublicN))))
	key := [4]float64{r.SamplingRate, r.Epochs, epsilon, delta}
	if calibrated[key] == 0 {
		if calibrated[key], err = noise(r, epsilon, delta); err != nil {
			return 0, 0, err
		}
	}
	c := train.Default()
	c.Seed, c.Noise, c.Threads = uint64(set.seed), "seeded", 1
	sigma := calibrated[key]
	c.NoiseMultiplier = &sigma
	result, err := trained(ctx, c, set.Set, r)
	if err != nil {
		return 0, 0, err
	}
	if result.TestAccuracy != nil {
		accuracy = *result.TestAccuracy
	}
	if loss = math.NaN(); result.TestLoss != nil {
		loss = *result.TestLoss
	}
	if set.Classes == 0 {
		loss /= spread(set.Test)
	}
	return accuracy, loss, nil
}
