package config

import (
	"strings"
	"testing"
)

// What is said of settings of views that do not go together.
func TestChecksOfViews(t *testing.T) {
	for want, set := range map[string]func(*Config){
		"":                           func(c *Config) { c.Views, c.Augment = 4, []string{"flip", "crop"} },
		"one view may be drawn":      func(c *Config) { c.Augment = []string{"crop"} },
		"views 4: without --augment": func(c *Config) { c.Views = 4 },
		"augment flip,flip: flip stands there twice": func(c *Config) { c.Augment = []string{"flip", "flip"} },
		"augment flip: features scatter are computed once": func(c *Config) {
			c.Views, c.Augment, c.Features = 2, []string{"flip"}, "scatter"
		},
	} {
		c := small()
		set(&c)
		err := c.Check()
		if fine := !strings.Contains(want, ":"); fine != (err == nil) || !fine && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
