package written

import (
	"fmt"
	"strings"
	"testing"
)

// What is counted is bounded, whatever a file has; what was not asked for is not counted.
func TestWords(t *testing.T) {
	w := CountWords([]string{"north", "south"}, map[string]int{"north": 0, "n": 0, "south": 1})
	for i := range mostWords + 5 {
		w.Look(fmt.Sprint("z", i))
	}
	for _, value := range []string{"n", "z7", "beyond", "beyond", "beyond", strings.Repeat("x", longestWord+1)} {
		w.Look(value)
	}
	if got := w.String(); len(w.others) != mostWords || got != `most often "z7"; no record has "south"` {
		t.Errorf("of %d values: %s", len(w.others), got)
	}
	var none Words
	if none.Look("x"); none.String() != "" || none.others != nil {
		t.Errorf("unasked, it counts %v", none.others)
	}
	if hint, broken := none.Hint(); hint != "" || broken {
		t.Errorf("it hints %q", hint)
	}
	for want, words := range map[string][]string{"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}} {
		if got := And(words); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		line      string
		separator byte
		want      string
	}{
		{`a, "b, c" ,d`, ',', "a|b, c|d"},
		{`"say ""hi""",`, ',', `say "hi"|`},
		{`"open,x`, ',', "open,x"},
		{"  a   b\t", ' ', "a|b"},
	} {
		if got := strings.Join(Fields([]byte(c.line), c.separator), "|"); got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
	if by := Separator([]byte(`"a,b,c";d;e`)); by != ';' {
		t.Errorf("it has most of %q", by)
	}
}
