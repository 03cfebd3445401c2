package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/privgrad/privgrad/train"
)

// Steps shows how a run goes, as a train.Progress and a train.Watcher: by a bar, or by a line for
// every evaluation where there is none. It sees public figures only.
type Steps struct {
	*Console
	NotPrivate   string // why ε is none, where it is not
	total, first int
	started      time.Time     // of the steps
	told         time.Duration // how long the run took, when that was last said
}

// Features is of train.FeatureProgress.
func (s *Steps) Features(work string, percent int) {
	if percent == 1 {
		s.Console.Start(100)
	}
	text := fmt.Sprintf("%s: %d%%", work, percent)
	if s.lines && percent%10 == 0 {
		s.Notice(text)
	}
	s.Update(percent, text)
	if percent == 100 {
		s.Finish()
	}
}

// Start is of train.Progress, like Step and Finish.
func (s *Steps) Start(total int) {
	s.total, s.first, s.started = total, -1, time.Now()
	s.Console.Start(total)
}

// Step shows a step that was made.
func (s *Steps) Step(done int, epsilon, testAccuracy *float64) {
	if s.first < 0 {
		s.first = done - 1 // a resumed run starts in the middle
	}
	text := fmt.Sprintf("step %d/%d", done, s.total)
	if s.NotPrivate != "" {
		text += ", " + s.NotPrivate
	}
	if ran := done - s.first; ran >= 10 && done < s.total {
		text += fmt.Sprintf(", %s left", coarse(time.Since(s.started)/time.Duration(ran)*time.Duration(s.total-done)))
	}
	var last []string // ε grows with every step, and is known as of an evaluation
	if epsilon != nil {
		last = append(last, fmt.Sprintf("ε %.3g", *epsilon))
	}
	if testAccuracy != nil {
		last = append(last, fmt.Sprintf("test %.1f%%", 100**testAccuracy))
	}
	if len(last) > 0 {
		text += ", last evaluation: " + strings.Join(last, " and ")
	}
	s.Update(done, text)
}

// Evaluated writes a line where there is no bar. Elapsed time comes in whole tens of
// seconds, and is said once in ten seconds at most: times of steps depend on the data.
func (s *Steps) Evaluated(m train.Measurement) {
	if !s.lines {
		return
	}
	elapsed := m.Elapsed
	if elapsed == s.told {
		elapsed = 0
	} else {
		s.told = elapsed
	}
	if s.json != nil {
		slog.New(s.Console).LogAttrs(context.Background(), slog.LevelInfo, "evaluation", attributes(m, elapsed)...)
		return
	}
	text := fmt.Sprintf("epoch %.4g", m.Epoch)
	if m.EpsilonSoFar != nil {
		text += fmt.Sprintf(", ε %.3g so far", *m.EpsilonSoFar)
	}
	if s.NotPrivate != "" {
		text += " (" + s.NotPrivate + ")"
	}
	switch {
	case m.TestAccuracy != nil:
		text += fmt.Sprintf(", test accuracy %.2f%%", 100**m.TestAccuracy)
	case m.RMSE != nil:
		text += fmt.Sprintf(", test RMSE %.4g", *m.RMSE)
	case m.TestLoss != nil:
		text += fmt.Sprintf(", test loss %.4g", *m.TestLoss)
	}
	if m.TrainLoss != nil {
		text += fmt.Sprintf(", training loss %.4g", *m.TrainLoss)
	}
	if elapsed > 0 {
		text += fmt.Sprintf(", %.0f s", elapsed.Seconds())
	}
	s.Notice(text)
}

// attributes are an evaluation's figures by the names that metrics.jsonl has for them.
func attributes(m train.Measurement, elapsed time.Duration) []slog.Attr {
	all := []slog.Attr{slog.Int("step", m.Step), slog.Float64("epoch", m.Epoch)}
	for _, f := range []struct {
		key   string
		value *float64
	}{{"epsilon_so_far", m.EpsilonSoFar}, {"test_accuracy", m.TestAccuracy}, {"test_loss", m.TestLoss}, {"test_rmse", m.RMSE}, {"test_mae", m.MAE}, {"test_r2", m.R2}, {"test_auc", m.AUC}, {"test_balanced_accuracy", m.BalancedAccuracy}, {"train_loss", m.TrainLoss}} {
		if f.value != nil {
			all = append(all, slog.Float64(f.key, *f.value))
		}
	}
	if m.NotPrivate != "" {
		all = append(all, slog.String("not_private", m.NotPrivate))
	}
	if elapsed > 0 {
		all = append(all, slog.Float64("seconds", elapsed.Seconds()))
	}
	return all
}

// coarse rounds a time left to what may be shown of it: single steps' times depend on the
// data. For the same reason it comes from the mean over the whole run, of ten steps or more.
func coarse(left time.Duration) time.Duration {
	unit := 5 * time.Second
	for _, u := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour} {
		if left >= 10*u {
			unit = u
		}
	}
	return left.Round(unit)
}
