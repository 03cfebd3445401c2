package l2p

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/meta"
	"github.com/privgrad/privgrad/internal/reproduce"
)

// endings of the files that a meta-training leaves.
var endings = []string{".safetensors", ".json", ".csv", ".png"}

// free checks that the files can be written, and that none is there unless a call was interrupted.
func (o *settings) free() error {
	if err := cli.Output("out", o.out+".checkpoint"); err != nil {
		return err
	}
	if _, err := os.Stat(o.out + ".checkpoint"); err == nil {
		return nil
	}
	for _, ending := range endings {
		path := strings.TrimSuffix(o.out, endings[0]) + ending
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there: remove it, or choose another --out", path)
		}
	}
	dir := filepath.Dir(o.out)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--out %s: %w", o.out, err)
	}
	f, err := os.CreateTemp(dir, ".privgrad-*")
	if err != nil {
		return fmt.Errorf("--out %s: %w", o.out, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// finish writes the files, and says what came out.
func (o *settings) finish(c *cli.Call, p *l2p.Protector, history []meta.Epoch) error {
	base := strings.TrimSuffix(o.out, ".safetensors")
	if err := p.Write(o.out); err != nil {
		return err
	}
	if err := durable.WriteFile(base+".csv", func(w io.Writer) error { return writeHistory(w, history) }); err != nil {
		return err
	}
	if err := durable.WriteFile(base+".png", func(w io.Writer) error { return drawHistory(w, p.Card.Name, history) }); err != nil {
		return err
	}
	if err := os.Remove(o.Checkpoint); err != nil {
		return err
	}
	best := math.Inf(1)
	last := history[len(history)-1]
	for _, e := range history {
		if e.Stage == last.Stage {
			best = min(best, e.Validation)
		}
	}
	result := struct {
		Protector  string  `json:"protector"`
		Path       string  `json:"path"`
		Card       string  `json:"card"`
		History    string  `json:"history"`
		Picture    string  `json:"picture"`
		Epochs     int     `json:"epochs"`
		Validation float64 `json:"validation_loss"`
		Recipe     string  `json:"recipe"`
	}{p.Card.Name, o.out, l2p.CardPath(o.out), base + ".csv", base + ".png", len(history), best, p.Card.Recipe}
	return c.Show(result, func(w io.Writer) {
		fmt.Fprintf(w, "Protector %s: %s.\n", p.Card.Name, p.Card.Summary)
		cli.Table(w, 0, func(w io.Writer) {
			cli.Row(w, "loss on held-out tasks", "%.6g", best)
			cli.Row(w, "files", "%s, %s, %s, %s", result.Path, result.Card, result.History, result.Picture)
		})
		fmt.Fprintf(w, "\nNext:\n  privgrad train --optimizer l2p --protector %s --epsilon %g\n", cli.Quote(o.out), p.Card.EpsilonRange[0])
	})
}

func writeHistory(w io.Writer, history []meta.Epoch) error {
	c := csv.NewWriter(w)
	rows := [][]string{{"stage", "epsilon", "epoch", "loss", "spent", "validation", "steps", "best"}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, e := range history {
		rows = append(rows, []string{
			strconv.Itoa(e.Stage), number(float64(e.Epsilon)), strconv.Itoa(e.Epoch),
			number(e.Loss), number(e.Spent), number(e.Validation), number(e.Steps), strconv.FormatBool(e.Best),
		})
	}
	return c.WriteAll(rows)
}

func drawHistory(w io.Writer, name string, history []meta.Epoch) error {
	curve := func(name string, value func(e meta.Epoch) float64) reproduce.Line {
		l := reproduce.Line{Name: name}
		for i, e := range history {
			l.X, l.Y = append(l.X, float64(i+1)), append(l.Y, value(e))
		}
		return l
	}
	return reproduce.Draw(w, []string{"meta-training of " + name}, [][]reproduce.Chart{{
		{Title: "loss", X: "epoch", Y: "loss", Lines: []reproduce.Line{
			curve("training", func(e meta.Epoch) float64 { return e.Loss }),
			curve("held out, budget spent", func(e meta.Epoch) float64 { return e.Validation }),
		}},
		{Title: "budget", X: "epoch", Y: "share of the budget", Lines: []reproduce.Line{
			curve("spent by T steps", func(e meta.Epoch) float64 { return e.Spent }),
		}},
	}})
}
