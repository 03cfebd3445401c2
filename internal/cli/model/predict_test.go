package model

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestWritePredictions(t *testing.T) {
	class, value := "a, b", 0.1
	for _, x := range []struct {
		what    string
		classes []string
		all     []Predicted
		want    string
	}{
		{"classes", []string{"a, b", "c"}, []Predicted{{Name: "0", Class: &class, Probabilities: []float64{0.75, 0.25}}}, "name,class,\"p(a, b)\",p(c)\n0,\"a, b\",0.75,0.25\n"},
		{"a support vector machine", []string{"a, b", "c"}, []Predicted{{Name: "0", Class: &class}}, "name,class\n0,\"a, b\"\n"},
		{"a regression", nil, []Predicted{{Name: "0", Value: &value}}, "name,value\n0,0.1\n"},
		{"no record", []string{"c"}, nil, "name,class,p(c)\n"},
	} {
		var b strings.Builder
		if err := writePredictions(&b, x.classes, x.all); err != nil || b.String() != x.want {
			t.Errorf("%s: %q, %v; want %q", x.what, b.String(), err, x.want)
		}
	}
}

// A regression has a value, and nothing of classes.
func TestPredictionsAsJSON(t *testing.T) {
	class, value := "a", 0.5
	for want, p := range map[string]Predicted{
		`{"name":"0","value":0.5}`:                             {Name: "0", Value: &value},
		`{"name":"0","class":"a","probabilities":[0.25,0.75]}`: {Name: "0", Class: &class, Probabilities: []float64{0.25, 0.75}},
		`{"name":"0","class":"a","probabilities":null}`:        {Name: "0", Class: &class},
	} {
		if got, err := json.Marshal(p); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}
