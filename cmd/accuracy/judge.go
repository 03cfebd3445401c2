package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/train"
)

// judging are the tables on whose public test records models are compared. The first four had no part in any choice.
var judging = []struct{ schema, file string }{
	{"breast-cancer", "breast_cancer.csv.gz"},
	{"iris", "iris.csv.gz"},
	{"bank", "bank-full.csv.gz"},
	{"bike-sharing", "hour.csv.gz"},
	{"adult", "adult.data.gz"},
	{"credit-card", "UCI_Credit_Card.csv.gz"},
	{"wine", "winequality-red.csv.gz"},
}

// judgedHead ends in figures of public test records; those that a model has not are empty.
var judgedHead = []string{"data", "epsilon", "model", "run", "test_accuracy", "test_auc", "test_balanced_accuracy", "test_r2", "seconds"}

// judge trains linear models and networks for tables by their rules, with secure noise, and adds their test figures to a file.
// Every run that ends is in it: none is chosen.
func judge(ctx context.Context, o options) error {
	done, err := readCSV(judgedFile)
	if err != nil {
		return err
	}
	for run := 1; run <= o.seeds; run++ {
		for _, t := range judging {
			path := filepath.Join(o.data, "tabular", t.file)
			set, err := tabular.Open(path, tabular.Options{Schema: t.schema})
			if err != nil {
				return err
			}
			of := recipes.Table{Records: set.PublicN, Features: set.Train.Shape[2], Classes: set.Classes}
			for _, epsilon := range o.epsilons {
				for _, r := range []recipes.Recipe{recipes.ForTable(of, epsilon), recipes.NetworkForTable(of, epsilon)} {
					f := []string{t.schema, text(epsilon), r.Model, fmt.Sprint(run)}
					if slices.ContainsFunc(done, func(d []string) bool { return slices.Equal(d[:len(f)], f) }) {
						continue
					}
					figures, err := judged(ctx, t.schema, path, r, run)
					if err != nil {
						return err
					}
					if err := add(judgedFile, judgedHead, append(f, figures...)); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// judged is a run with first weights of its own, and noise that nobody can repeat.
func judged(ctx context.Context, schema, path string, r recipes.Recipe, run int) ([]string, error) {
	out, err := os.MkdirTemp("", "accuracy")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(out)
	c := train.Default()
	c.Data, c.Schema, c.PublishedSet, c.Epsilon, c.Recipe, c.EvalEvery = "csv:"+path, schema, true, &r.Epsilon, config.NoRecipe, math.MaxInt32
	c.Seed = uint64(run)
	take(&c, r.Settings)
	result, err := train.Run(ctx, c, train.Options{Out: filepath.Join(out, "run")})
	if err != nil {
		return nil, err
	}
	if !result.Guarantee || result.PublicN != r.Records {
		return nil, fmt.Errorf("%s at epsilon %g: the run has no guarantee, or trains on %d records and not on %d", schema, r.Epsilon, result.PublicN, r.Records)
	}
	var fields []string
	for _, x := range []*float64{result.TestAccuracy, result.AUC, result.BalancedAccuracy, result.R2} {
		field := ""
		if x != nil {
			field = text(*x)
		}
		fields = append(fields, field)
	}
	return append(fields, text(result.Seconds)), nil
}
