package golden

import (
	"fmt"
	"strings"
	"testing"
)

// A record in short shows any change of a run: by the line, where that is kept.
func TestShortRecords(t *testing.T) {
	asked := []string{"compile", "write", "first sum", strings.Repeat("x", mostBytes), "release", strings.Repeat("é", mostColumns), "score"}
	record := func(name string, asked []string) string {
		return fmt.Sprintf("== %s\nconfig.yaml 12ab\n-- config.yaml\n+lr: 1\n-- result.json\n-- device\n%s\n", name, strings.Join(asked, "\n"))
	}
	runs := []string{record("plain", asked), record("long", asked)}
	file := strings.Join(inShort(runs), "")
	short := strings.TrimPrefix(file, runs[0])
	if want := "== long\n"; !strings.HasPrefix(short, want) || len(short) > 300 {
		t.Errorf("the second run is kept as %q", short)
	}
	if d := differences(file, inShort(runs)); d != nil {
		t.Errorf("a run differs from itself: %q", d)
	}
	for _, c := range []struct {
		line int
		says string
	}{{0, "device, line 1,"}, {2, "device, line 3,"}, {3, "behind"}, {4, "behind"}, {5, "behind"}, {6, "device, line 5,"}} {
		changed := append([]string(nil), asked...)
		changed[c.line] += "y"
		for i, title := range []string{"plain", "long"} {
			now := append([]string(nil), runs...)
			now[i] = record(title, changed)
			says := c.says
			if i == 0 { // kept whole
				says = fmt.Sprintf("device, line %d,", c.line+1)
			}
			d := differences(file, inShort(now))
			if len(d) != 1 || !strings.HasPrefix(d[0], fmt.Sprintf("run %q: ", title)) || !strings.Contains(d[0], says) {
				t.Errorf("line %d of %s changed, and what is said is %.300q", c.line, title, d)
			}
		}
	}
	now := []string{runs[0], strings.Replace(runs[1], "12ab", "34cd", 1)}
	if d := differences(file, inShort(now)); len(d) != 1 || !strings.Contains(d[0], "[config.yaml]; in text, at most behind") {
		t.Errorf("of a file with other bytes is said %.300q", d)
	}
	if d := differences(file, inShort(runs[:1])); len(d) != 1 {
		t.Errorf("of a run that is missing is said %.300q", d)
	}
	if d := differences(runs[0], inShort(runs)); len(d) != 1 || !strings.Contains(d[0], "not recorded") {
		t.Errorf("of a run that is new is said %.300q", d)
	}
}
