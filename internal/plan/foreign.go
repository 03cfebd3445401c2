package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/datasets/mnist"
	"github.com/privgrad/privgrad/nn"
)

// Foreign names what of a run this program does not have by itself, as a program of the user's own gave it: a
// network, a method, features or a data set. No command can repeat such a run or go on with it. It is empty where there is nothing.
// Assumptions are the run's, which tell of what may have the name of something else.
func (c *Config) Foreign(assumptions []string) string {
	_, unknown := Model(c.Model)
	_, known := methods[c.Optimizer]
	switch {
	case c.Model != "" && unknown != nil, slices.Contains(assumptions, ownGraph):
		return "network " + c.Model
	case c.own != nil || !known:
		return "optimizer " + c.Optimizer
	case slices.Contains(assumptions, ownFeatures):
		return "features of a record"
	case !c.namesData():
		return "data set " + c.Data
	}
	return ""
}

// namesData says whether the data are a set, or of a form, that comes with privgrad.
func (c *Config) namesData() bool {
	if strings.HasPrefix(c.Data, TablePrefix) || FormOf(c.Data) != nil || c.Data == mnist.Fashion.Name {
		return true
	}
	_, known := Sources()[c.Data]
	return known
}

// GoOn says by what the run in a directory goes on.
func (c *Config) GoOn(dir string, assumptions []string) string {
	switch {
	case nn.Registered(c.Model):
		return fmt.Sprintf("running your program again, as `resume %s` or with Resume: train.ResumeAuto", dir)
	case c.Foreign(assumptions) != "":
		return "running your program again, with Resume: train.ResumeAuto"
	}
	return fmt.Sprintf("`privgrad resume %s`", dir)
}
