package yamlfile

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

type inner struct {
	Trials *int `yaml:"trials,omitempty"`
}

type file struct {
	Steps   *int      `yaml:"steps,omitempty"`
	Seed    uint64    `yaml:"seed"`
	Classes []int     `yaml:"classes,flow"`
	Rate    *float64  `yaml:"rate"`
	Bounds  []float64 `yaml:"bounds"`
	Name    string    `yaml:"name"`
	Public  bool      `yaml:"public"`
	Search  *inner    `yaml:"search"`
	Many    []inner   `yaml:"many"`
}

func ptr[T any](x T) *T { return &x }

func filled() file { return file{Steps: ptr(7), Seed: 1, Name: "x"} }

// What holds nothing changes nothing.
func TestEmpty(t *testing.T) {
	for _, text := range []string{"", "\n", "  \n\n", "# a comment\n", "---\n", "--- \n# x\n", "...\n", "---\n...\n"} {
		got := filled()
		if err := Decode([]byte(text), &got); !errors.Is(err, ErrEmpty) || !reflect.DeepEqual(got, filled()) {
			t.Errorf("%q: %v, %+v", text, err, got)
		}
	}
}

func TestDecode(t *testing.T) {
	got := filled()
	text := "steps: 10 # so many\nseed: 18446744073709551615\nclasses: [3, -5]\nrate: 1e-5\nbounds: [-.5, 20., .inf]\nname: '010'\npublic: true\nsearch: {trials: +4}\nmany:\n- trials: 0\n- {}\n"
	if err := Decode([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := file{Steps: ptr(10), Seed: 1<<64 - 1, Classes: []int{3, -5}, Rate: ptr(1e-5), Bounds: got.Bounds, Name: "010", Public: true, Search: &inner{ptr(4)}, Many: []inner{{ptr(0)}, {}}}
	if !reflect.DeepEqual(got, want) || len(got.Bounds) != 3 || got.Bounds[0] != -0.5 || got.Bounds[1] != 20 {
		t.Errorf("%+v", got)
	}
	if err := Decode([]byte("steps: null\n"), &got); err != nil {
		t.Error(err)
	}
}

// A number that would become another one is refused, and its key named.
func TestSlips(t *testing.T) {
	for text, want := range map[string]string{
		"steps: 2.9":                         "steps 2.9",
		"steps: 2.0":                         "steps 2.0",
		"steps: 010":                         "steps 010",
		"steps: -010":                        "steps -010",
		"steps: 0x10":                        "steps 0x10",
		"steps: 0o10":                        "steps 0o10",
		"steps: 0b11":                        "steps 0b11",
		"steps: 1_000":                       "steps 1_000",
		"steps: 1e3":                         "steps 1e3",
		"steps: '2.9'":                       "steps 2.9",
		"steps: ten":                         "steps ten",
		"steps: &a 2.9":                      "steps 2.9",
		"rate: &a 2.9\nsteps: *a":            "write the value itself",
		"search: &a {trials: 2}\nmany: [*a]": "write the value itself",
		"rate: !!float 010":                  "write the value itself",
		"steps: !!int '010'":                 "write the value itself",
		"!!map {steps: 2}":                   "write the value itself",
		"steps: 2\n39: x":                    "[2:1] unknown field",
		"null: 1":                            "[1:1] unknown field",
		"~: 1":                               "[1:1] unknown field",
		"1.5: 1":                             "[1:1] unknown field",
		"39: x\nstep: 2":                     "[1:1] unknown field",
		"search: {39: x}":                    "[1:10] unknown field",
		"many:\n- true: 4":                   "[2:3] unknown field",
		"&a {39: x, steps: 2}":               "unknown field",
		"name: {39: x}":                      "must be a text, not keys with values",
		"classes: {39: x}":                   "must be a list, not keys with values",
		"<<: {steps: 2.9}":                   "merges keys",
		"seed: 18446744073709551616":         "seed 18446744073709551616",
		"classes: [3, 2.9]":                  "classes 2.9",
		"classes:\n- 3\n- 010":               "classes 010",
		"search: {trials: 2.5}":              "search.trials 2.5",
		"many:\n- trials: 1\n  # no\n- trials: 08": "many.trials 08",
		"rate: 010":               "rate 010",
		"rate: 0x10":              "rate 0x10",
		"bounds: [010, 20]":       "bounds 010",
		"rate: '010'":             "rate 010",
		"rate: '0x10'":            "rate 0x10",
		"rate: 1_000":             "rate 1_000",
		"rate: 0x1p-3":            "rate 0x1p-3",
		"rate: 1:30":              "must be a number, not a text",
		"steps: 1:30":             "steps 1:30",
		"classes: [3, null]":      "classes has an item that is none",
		"classes:\n- 3\n-":        "classes has an item that is none",
		"classes: [3, ~]":         "[1:14] classes has an item that is none",
		"public: 010":             "public 010",
		"step: 3":                 "step",
		"steps: 1\n---\nsteps: 2": "more than one document",
		"steps: [":                "1:",
		"- 3":                     "must be keys with values, not a list",
	} {
		got := filled()
		if err := Decode([]byte(text+"\n"), &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q; read %+v", text, err, want, got)
		}
	}
}

// Where a text belongs, it is read as it is written, whatever YAML would make of it.
func TestTextAsWritten(t *testing.T) {
	for _, text := range []string{
		"+1", "-1", "01", "010", "1.0", "1.", "1e3", "0x1", "0o10", "0b1", ".5", "1_000", "1:30", "-0", "yes", "no", "on", "true", "True", "FALSE", "2019-01-01",
		".inf", "-.Inf", ".nan", "1e400", "99999999999999999999", "1 000", "café",
	} {
		var got struct {
			Name  string   `yaml:"name"`
			Other *string  `yaml:"other"`
			List  []string `yaml:"list"`
			Block []string `yaml:"block"`
			Named []named  `yaml:"named"`
		}
		document := strings.ReplaceAll("name: X\nother: &a X # X\nlist: [X, 'X', a, &b X]\nblock:\n  - X\n  - X # x\nnamed:\n- name: X\n- {name: X}\n", "X", text)
		err := Decode([]byte(document), &got)
		if err != nil || got.Name != text || *got.Other != text || !slices.Equal(got.List, []string{text, text, "a", text}) || !slices.Equal(got.Block, []string{text, text}) ||
			!slices.Equal(got.Named, []named{{text}, {text}}) {
			t.Errorf("%s is read as %+v (%v)", text, got, err)
		}
	}
}

type named struct {
	Name string `yaml:"name"`
}

// Editors begin a file with a mark, which is no part of it. Other text than UTF-8 is refused.
func TestByteOrderMark(t *testing.T) {
	got := filled()
	if err := Decode([]byte("\xef\xbb\xbfsteps: 10\r\nname: y\r\n"), &got); err != nil || *got.Steps != 10 || got.Name != "y" {
		t.Errorf("%+v (%v)", got, err)
	}
	if err := Decode([]byte("\xff\xfes\x00t\x00"), &got); err == nil || !strings.Contains(err.Error(), "UTF-16: save it in UTF-8") {
		t.Error(err)
	}
	if got := string(Rename([]byte("\xef\xbb\xbfold: 1\n"), "old", "new")); got != "new: 1\n" {
		t.Errorf("renamed to %q", got)
	}
}

// A file of data, given by mistake, is refused without a word of it; a mistaken key is named.
func TestQuotesKeysAlone(t *testing.T) {
	for _, text := range []string{
		"Ada Lovelace: 1", "Ada Lovelace: 1\nAda Lovelace: 2", `"Ada\" Lovelace": 1`, "ada@lovelace: 2", "? Ada\n: Lovelace",
		"Ada, Lovelace", "*Ada.Lovelace", "|Ada Lovelace\nx", "Ada" + strings.Repeat("Lovelace", 5) + ": 3", "x1815.Ada: 4",
	} {
		got := filled()
		err := Decode([]byte(text+"\n"), &got)
		if err == nil || strings.Contains(err.Error(), "Ada") || strings.Contains(err.Error(), "Lovelace") || !strings.Contains(err.Error(), "[1:") && !strings.Contains(err.Error(), "[2:") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := Decode([]byte("lr-schedule: 1\n"), &file{}); err == nil || !strings.Contains(err.Error(), `unknown field "lr-schedule"`) {
		t.Error(err)
	}
}

// A key has its other name in every form of a document; values and inner keys keep their words.
func TestRename(t *testing.T) {
	for text, want := range map[string]string{
		"name: x\nold: 1\n":                     "name: x\nnew: 1\n",
		"old : 1":                               "new : 1",
		"{old: 1}":                              "{new: 1}",
		"{name: 'old: x', old: 1, é: old}":      "{name: 'old: x', new: 1, é: old}",
		"{é: ü, \"old\": 1}\n":                  "{é: ü, \"new\": 1}\n",
		"{name: x,\n  old: 1\n}":                "{name: x,\n  new: 1\n}",
		"# old: 2\n---\nold: 1":                 "# old: 2\n---\nnew: 1",
		"old: 1\r\nname: x\r\n":                 "new: 1\r\nname: x\r\n",
		"search: {old: 1}\nname: |\n  old: 1\n": "search: {old: 1}\nname: |\n  old: 1\n",
		"{old: 1":                               "{old: 1",
		"":                                      "",
	} {
		if got := string(Rename([]byte(text), "old", "new")); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// Errors are in words of YAML, not of Go.
func TestPlainWords(t *testing.T) {
	for text, want := range map[string]string{
		"steps: [1]":         "must be a whole number, not a list",
		"rate: {a: 1}":       "must be a number, not keys with values",
		"rate: abc":          "must be a number, not a text",
		"public: 3":          "must be true or false, not a number",
		"classes: '3'":       "must be a list, not a text",
		"search: 4":          "must be keys with values, not a number",
		"[1, 2]":             "must be keys with values, not a list",
		"search: null":       "search has no value: write one, or leave the key out",
		"null":               "must be keys with values, not nothing",
		"steps: {trials: 4}": "must be a whole number, not keys with values",
	} {
		var into file
		err := Decode([]byte(text), &into)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
			continue
		}
		for _, goWord := range []string{"unmarshal", "interface", "struct", "sequence", "mapping", "float64", "uint"} {
			if strings.Contains(err.Error(), goWord) {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}
