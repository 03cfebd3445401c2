package cli

import (
	"fmt"
	"time"
)

// Steps shows how a run goes, as a train.Progress. It sees public figures only.
type Steps struct {
	*Console
	NotPrivate   string // why ε is none, where it is not
	total, first int
	started      time.Time
}

// Features is of train.FeatureProgress.
func (s *Steps) Features(percent int) {
	if percent == 1 {
		s.Console.Start(100)
	}
	s.Update(percent, fmt.Sprintf("features of all images: %d %%", percent))
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
	if epsilon != nil {
		text += fmt.Sprintf(", ε %.3g", *epsilon)
	}
	if s.NotPrivate != "" {
		text += " (" + s.NotPrivate + ")"
	}
	if testAccuracy != nil {
		text += fmt.Sprintf(", test %.1f%%", 100**testAccuracy)
	}
	if ran := done - s.first; ran >= 10 {
		text += fmt.Sprintf(", %s left", coarse(time.Since(s.started)/time.Duration(ran)*time.Duration(s.total-done)))
	}
	s.Update(done, text)
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
