package plan

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/nn"
)

// Foreign names what of a run this program does not have by itself, as a program of the user's own gave it: a
// network, a method, features or a data set. No command can repeat such a run or go on with it. It is empty where there is nothing.
// Assumptions are the run's, which tell of what may have the name of something else.
func Foreign(c *config.Config, assumptions []string) string {
	_, unknown := Model(c.Model)
	known := config.CheckOptimizer(c.Optimizer) == nil
	switch {
	case c.Network == "" && c.Model != "" && unknown != nil, slices.Contains(assumptions, ownGraph):
		return "network " + c.Model
	case c.OwnMethod != nil || !known:
		return "optimizer " + c.Optimizer
	case slices.Contains(assumptions, ownFeatures):
		return "features of a record"
	case !source.Known(c):
		return "data set " + c.Data
	}
	return ""
}

// GoOn says by what the run in a directory goes on.
func GoOn(c *config.Config, dir string, assumptions []string) string {
	switch {
	case c.Network == "" && nn.Registered(c.Model):
		return fmt.Sprintf("running your program again, as `resume %s` or with Resume: train.ResumeAuto", dir)
	case Foreign(c, assumptions) != "":
		return "running your program again, with Resume: train.ResumeAuto"
	}
	return fmt.Sprintf("`privgrad resume %s`", dir)
}
