package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/privgrad/privgrad/train"
)

func TestLinesClearTheBar(t *testing.T) {
	var b strings.Builder
	c, err := newConsole(&b, "on", "text")
	if err != nil {
		t.Fatal(err)
	}
	c.Start(10)
	c.Update(3, "three")
	drawn := b.Len()
	c.Line("hello")
	if got := b.String()[drawn:]; !regexp.MustCompile("^\r +\rhello\n$").MatchString(got) {
		t.Errorf("a line over the bar is written as %q", got)
	}
	c.Finish()
	drawn = b.Len()
	c.Line("bye")
	if got := b.String()[drawn:]; got != "bye\n" {
		t.Errorf("a line without a bar is written as %q", got)
	}
}

// A few steps' time is not shown, and that of more coarsely.
func TestTimeLeft(t *testing.T) {
	var b strings.Builder
	con, err := newConsole(&b, "on", "text")
	if err != nil {
		t.Fatal(err)
	}
	s := Steps{Console: con}
	s.Start(1000)
	for done := 500; done < 520; done++ { // resumed
		s.Step(done, nil, nil)
		if got := strings.Contains(s.bar.State().Description, " left"); got != (done >= 509) {
			t.Errorf("step %d: %q", done, s.bar.State().Description)
		}
	}
	for left, want := range map[time.Duration]time.Duration{
		0: 0, 2 * time.Second: 0, 13 * time.Second: 15 * time.Second, 599 * time.Second: 10 * time.Minute,
		641 * time.Second: 11 * time.Minute, 104 * time.Minute: 100 * time.Minute, 1234 * time.Minute: 21 * time.Hour,
	} {
		if got := coarse(left); got != want {
			t.Errorf("%v is shown as %v, want %v", left, got, want)
		}
	}
}

// On a narrow terminal no update is longer than a line, and the bar ends at 100 %.
func TestBarFitsTheTerminal(t *testing.T) {
	for _, columns := range []int{20, 44, 60, 100} {
		var b strings.Builder
		con, err := newConsole(&b, "on", "text")
		if err != nil {
			t.Fatal(err)
		}
		con.columns = func() int { return columns }
		s := Steps{Console: con, NotPrivate: "NOT PRIVATE: seeded noise"}
		s.Start(117)
		epsilon, accuracy := 2.93, 0.8712
		for done := 1; done <= 117; done++ {
			s.Step(done, &epsilon, &accuracy)
		}
		for line := range strings.SplitSeq(b.String(), "\r") {
			if n := utf8.RuneCountInString(line); n >= columns {
				t.Errorf("%d columns: %d are written: %q", columns, n, line)
			}
		}
		if columns >= 44 && !regexp.MustCompile(`100% \|█+\|  step 117/117`).MatchString(b.String()) {
			t.Errorf("%d columns: the bar does not end at 100 %%: %q", columns, b.String())
		}
		s.Finish()
		if !strings.HasSuffix(b.String(), "\r") {
			t.Errorf("%d columns: the bar stays", columns)
		}
	}
}

// A line an evaluation, without a time within the first ten seconds, and then at most one in ten.
func TestLinesWithoutATerminal(t *testing.T) {
	var b strings.Builder
	con, err := newConsole(&b, "auto", "text")
	if err != nil {
		t.Fatal(err)
	}
	s := Steps{Console: con}
	s.Start(100)
	epsilon, loss := 1.25, 0.5
	tell := func(ago time.Duration) string {
		b.Reset()
		s.Evaluated(train.Measurement{Elapsed: ago, Step: 10, Epoch: 1.25, EpsilonSoFar: &epsilon, TestLoss: &loss})
		return b.String()
	}
	const line = "privgrad: epoch 1.25, ε 1.25 so far, test loss 0.5"
	for _, c := range []struct {
		ago  time.Duration
		want string
	}{{0, line}, {10 * time.Second, line + ", 10 s"}, {10 * time.Second, line}, {40 * time.Second, line + ", 40 s"}} {
		if got := tell(c.ago); got != c.want+"\n" {
			t.Errorf("after %v: %q, want %q", c.ago, got, c.want)
		}
	}
	if _, err := newConsole(&b, "auto", "xml"); err == nil {
		t.Error("a format that is none passes")
	}
}

// Work on features is told in ten lines where there is no terminal.
func TestFeatureLines(t *testing.T) {
	for mode, want := range map[string]int{"auto": 20, "off": 0} {
		var b strings.Builder
		con, err := newConsole(&b, mode, "text")
		if err != nil {
			t.Fatal(err)
		}
		s := Steps{Console: con}
		for _, work := range []string{"features of the training images", "features of the test images"} {
			for percent := 1; percent <= 100; percent++ {
				s.Features(work, percent)
			}
		}
		if got := strings.Count(b.String(), "\n"); got != want || want > 0 && !strings.HasPrefix(b.String(), "privgrad: features of the training images: 10%\n") {
			t.Errorf("%s: %d lines, want %d:\n%s", mode, got, want, b.String())
		}
	}
}
