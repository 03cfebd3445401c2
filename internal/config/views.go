package config

import (
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
)

// checkViews finds settings of views that do not go together.
func (c *Config) checkViews() error {
	if len(c.Augment) == 0 {
		if c.Views > 1 {
			return usage.Errorf("views %d: without --augment all views of a record are the same; add --augment %s, or leave --views out", c.Views, strings.Join(ir.Augmentations(), ","))
		}
		return nil
	}
	list := strings.Join(c.Augment, ",")
	for i, name := range c.Augment {
		if slices.Contains(c.Augment[:i], name) {
			return usage.Errorf("augment %s: %s stands there twice; leave one out", list, name)
		}
	}
	if c.Features != "" {
		return usage.Errorf("augment %s: features %s are computed once, before training, and views are drawn anew in every step; add --features none, or leave --augment out", list, c.Features)
	}
	return nil
}
