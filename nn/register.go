package nn

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A Builder makes a network of one's own for data of a shape and a number of classes. It
// should follow the Options as Build does: other weights for another seed, and nothing of
// the training data.
type Builder func(Options) (*Model, error)

var own struct {
	sync.RWMutex
	builders map[string]Builder
}

// Register makes a network of one's own known by a name, which stands wherever a named model's may:
// in Build, in configurations and in commands. Register before the first run.
func Register(name string, build Builder) error {
	if name == "" || build == nil {
		return errors.New("a network of your own needs a name and a function that builds it")
	}
	own.Lock()
	defer own.Unlock()
	if own.builders[name] != nil || slices.ContainsFunc(specs, func(s spec) bool { return s.Name == name }) {
		return fmt.Errorf("there is a model named %s already: give your network another name", name)
	}
	if own.builders == nil {
		own.builders = map[string]Builder{}
	}
	own.builders[name] = build
	return nil
}

// Registered reports whether a name is that of a network of one's own.
func Registered(name string) bool { return registered(name) != nil }

func registered(name string) Builder {
	own.RLock()
	defer own.RUnlock()
	return own.builders[name]
}

// registeredNames lists them in alphabetical order.
func registeredNames() (names []string) {
	own.RLock()
	defer own.RUnlock()
	for name := range own.builders {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// buildOwn builds a registered network under its name.
func buildOwn(name string, build Builder, o Options) (*Model, error) {
	if o.Batch == 0 {
		o.Batch = 1
	}
	m, err := guard("model "+name, func() (*Model, error) { return build(o) })
	if err != nil {
		return nil, err
	}
	if m == nil || m.Logits == nil {
		return nil, fmt.Errorf("model %s: its function gave no logits", name)
	}
	named := *m
	named.Name = name
	return &named, nil
}
