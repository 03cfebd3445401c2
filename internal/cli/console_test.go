package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"
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
