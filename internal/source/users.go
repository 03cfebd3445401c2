package source

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// byUser makes users the units of a set. Which records of a user take part is drawn anew by every process.
func byUser(c *config.Config, set *datasets.Set) (*datasets.Set, error) {
	key := stream.KeyFromSeed(c.Seed, "users")
	if !c.Seeded() {
		var err error
		if key, err = stream.NewKey(); err != nil {
			return nil, err
		}
	}
	return set.ByUser(c.UnitRows(), key)
}

// nameUsers reads whose each record to train on is: of records with names CLASS/FILE,USER a line, of others USER in their order. What a line says
// concerns its record alone, so that a line for no record, or a record without a line, is no error: the record is nobody's.
func nameUsers(set *datasets.Set, path string) (*datasets.Set, error) {
	text, err := readUsers(path)
	if err != nil {
		return nil, usage.Errorf("users %s %w", path, err)
	}
	named := *set
	m := &named.Train
	m.Users = make([]string, m.Len())
	if m.Names == nil {
		copy(m.Users, lines(text))
		return &named, nil
	}
	users := map[string]string{}
	for _, line := range lines(text) {
		if fields := written.Fields([]byte(line), ','); len(fields) == 2 {
			users[filepath.ToSlash(strings.TrimSpace(fields[0]))] = strings.TrimSpace(fields[1])
		}
	}
	for i, name := range m.Names {
		m.Users[i] = users[name]
	}
	return &named, nil
}

func readUsers(path string) ([]byte, error) {
	f, err := datasets.OpenFile(written.Path(path))
	if err != nil {
		return nil, datasets.Unread(err, nil)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return written.Unmarked(text), err
}

// lines are those of a text, without blanks around them.
func lines(text []byte) (all []string) {
	for line := range bytes.Lines(text) {
		all = append(all, string(bytes.TrimSpace(line)))
	}
	return all
}
