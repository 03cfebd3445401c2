package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/usage"
)

func TestReadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.yaml")
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"# nothing\n---\n", ""},
		{"model: logistic\n", ""},
		{"steps: 2.9\n", "steps 2.9"},
		{"search: {trials: 010}\n", "search.trials 010"},
		{"model: logistic\nmodle: svm\n", "modle"},
		{"clip: [1\n", "configuration"},
		{"clip: soft\n", "configuration"},
		{"clip: 1\n---\nclip: 2\n", "more than one document"},
	} {
		check(t, os.WriteFile(path, []byte(test.text), 0o600))
		c := Default()
		err := Read(path, &c)
		var u *usage.Error
		if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &u) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%q: %v, want %q", test.text, err, test.want)
		}
		if !strings.Contains(test.text, "model") && !reflect.DeepEqual(c, Default()) {
			t.Errorf("%q changed the configuration to %+v", test.text, c)
		}
	}
}
