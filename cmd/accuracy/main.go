// Accuracy chooses the settings of recipes on images held out from the training files, and
// measures what the recipes reach on the test files. What it writes is committed.
//
//	accuracy tune     make the trials of trials.go; what is found is added to a CSV file
//	accuracy table    write the table of recipes from that file
//	accuracy tables   make the trials of tables.go, and set the rule for tables beside the best of them
//	accuracy networks make the trials of networks.go, of networks for tables
//	accuracy judge    set linear models beside networks for tables, on public test records, and add what comes out to a CSV file
//	accuracy measure  train by the recipes, a process a run, and add what comes out to a CSV file
//	accuracy page     write the tables of docs/explain/accuracy.md and its picture from both files, the published figures
//	                  beside ours in docs/explain/without-public-images.md, and bench/results/scoreboard
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/privgrad/privgrad/internal/written"
)

// Files that are committed, below the root of the module.
const (
	triedFile    = "internal/recipes/tried.csv"
	tablesFile   = "internal/recipes/tried-tables.csv"
	networksFile = "internal/recipes/tried-networks.csv"
	judgedFile   = "bench/results/networks.csv"
	tableFile    = "internal/recipes/table.go"
	measuredFile = "bench/results/accuracy.csv"
	pageFile     = "docs/explain/accuracy.md"
	besideFile   = "docs/explain/without-public-images.md"
	pictureFile  = "docs/explain/accuracy-recipes.svg"
	entryFile    = "bench/results/scoreboard/cifar10.yml"
)

// options are what the commands take.
type options struct {
	data           string
	sets           list[string]
	epsilons       list[float64]
	seeds          int
	binary, recipe string
	note           string
	together       bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, options) error{
		"tune": tune, "table": writeTable, "tables": tables, "networks": networks, "judge": judge, "measure": measure, "repeat": repeat, "page": writePage,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("name what to do: tune, table, tables, networks, judge, measure, repeat or page")
	}
	o := options{sets: list[string]{"fmnist", "mnist", "cifar10"}, epsilons: list[float64]{0.5, 1, 2, 3, 4, 8}}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.StringVar(&o.data, "data-dir", os.Getenv("PRIVGRAD_DATA"), "directory with folders mnist, cifar10 and tabular")
	f.Var(&o.sets, "sets", "data sets, with commas")
	f.Var(&o.epsilons, "epsilons", "budgets, with commas")
	o.seeds = 5
	f.Func("seeds", "runs of each setting (default 5)", func(text string) (err error) { o.seeds, err = written.Whole(text); return err })
	f.StringVar(&o.binary, "binary", "bin/privgrad", "measure: the command")
	f.StringVar(&o.recipe, "recipe-of", "", "measure: take the recipe of another set")
	f.BoolVar(&o.together, "features-once", false, "measure: make features once for all runs; their times are not measured")
	f.StringVar(&o.note, "note", "", "tune: only the trials of this note")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	return commands[args[0]](ctx, o)
}

// A list is a flag of values with commas.
type list[T any] []T

func (l *list[T]) String() string { return fmt.Sprint([]T(*l)) }

func (l *list[T]) Set(text string) error {
	fields, err := written.List(text)
	*l = nil
	for _, field := range fields {
		var v T
		switch p := any(&v).(type) {
		case *string:
			*p = field
		case *float64:
			if *p, err = written.Number(field); err != nil {
				return err
			}
		}
		*l = append(*l, v)
	}
	return err
}
