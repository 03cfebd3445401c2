// Package tune chooses settings by private trials, and charges for them: a random number of trials, each a run with settings drawn
// from a grid, of which the one with the best score is released (accountant.Selection). What was drawn and tried stays in
// OUT.private.
package tune

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
)

// A choice is a point of a grid: some settings with their values.
type choice struct {
	values map[string]any
	given  map[string]bool
	with   config.Config // which has the values, and defaults elsewhere
}

// mostChoices of a grid are far more than anybody tries.
const mostChoices = 1000

// fixed are settings that say what is protected, measured or charged, beside all that say where data lie and what computes.
var fixed = []string{
	"epsilon", "delta", "accountant", "neighbouring", "unit", "users", "records_per_user", "noise", "train_loss_noise", "private_diagnostics", "data_is_public", "canaries",
	"recipe", "recipe_chosen_on", "eval_every",
}

// row finds a setting by its key or its flag.
func row(name string) (setting.Row, error) {
	rows := config.Rows()
	i := slices.IndexFunc(rows, func(r setting.Row) bool { return r.Key == name || r.Flag() == name })
	if i < 0 {
		return setting.Row{}, usage.Errorf("grid: there is no setting %q; `privgrad train --help` lists them", name)
	}
	if r := rows[i]; slices.Contains(fixed, r.Key) || r.Movable() || r.Group.Title == "Data" {
		return r, usage.Errorf("grid: %s must be the same in every trial: take it out of the grid", r.Flag())
	}
	return rows[i], nil
}

// choices are the full product of a grid such as "lr=.1,.5;clip=1,2", and the grid as it is kept.
func choices(grid string) (all []choice, kept string, err error) {
	all = []choice{{values: map[string]any{}, given: map[string]bool{}, with: config.Default()}}
	var axes []string
	for axis := range strings.SplitSeq(grid, ";") {
		if axis = strings.TrimSpace(axis); axis == "" {
			continue
		}
		name, list, ok := strings.Cut(axis, "=")
		if !ok {
			return nil, "", usage.Errorf("grid %q: give settings with their values, such as \"lr=.1,.5,2;clip=.5,1\"", axis)
		}
		r, err := row(strings.TrimSpace(name))
		if err != nil {
			return nil, "", err
		}
		if all[0].given[r.Key] {
			return nil, "", usage.Errorf("grid: %s is there twice", r.Flag())
		}
		values, texts, err := axisValues(r, list)
		if err != nil {
			return nil, "", err
		}
		if len(all)*len(values) > mostChoices {
			return nil, "", usage.Errorf("grid: it has more than %d choices of settings: leave some out", mostChoices)
		}
		axes = append(axes, r.Key+"="+strings.Join(texts, ","))
		var next []choice
		for _, c := range all {
			for _, v := range values {
				next = append(next, c.and(r, v))
			}
		}
		all = next
	}
	if len(axes) == 0 {
		return nil, "", usage.Errorf("grid: it is empty: give settings with their values, such as \"lr=.1,.5,2;clip=.5,1\"")
	}
	return all, strings.Join(axes, ";"), nil
}

// axisValues reads the values of a setting, each of which may be there once.
func axisValues(r setting.Row, list string) (values []reflect.Value, texts []string, err error) {
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		c := config.Default()
		if text == "" || strings.ContainsAny(text, "\n\r#{}[]&*!|>%@`") {
			return nil, nil, usage.Errorf("grid: %s: %q is no value", r.Flag(), text)
		}
		yaml, indent := "", ""
		for key := range strings.SplitSeq(r.Key, ".") {
			yaml += "\n" + indent + key + ":"
			indent += "  "
		}
		if err := config.Parse([]byte(yaml+" "+text+"\n"), "of the grid", &c); err != nil {
			return nil, nil, usage.Errorf("grid: %s: %q is no value: %w", r.Flag(), text, usage.Cause(err))
		}
		if err := r.Fault(&c); err != nil {
			return nil, nil, usage.Errorf("grid: %w", err)
		}
		v, _ := r.Given(&c)
		word := fmt.Sprint(v.Interface())
		if slices.Contains(texts, word) {
			return nil, nil, usage.Errorf("grid: %s: %s is there twice", r.Flag(), word)
		}
		values, texts = append(values, r.Value(&c)), append(texts, word)
	}
	return values, texts, nil
}

// and adds a value.
func (c choice) and(r setting.Row, v reflect.Value) choice {
	next := choice{map[string]any{r.Key: reflect.Indirect(v).Interface()}, map[string]bool{r.Key: true}, c.with}
	for key := range c.given {
		next.given[key], next.values[key] = true, c.values[key]
	}
	r.Value(&next.with).Set(v)
	return next
}

// text names the choice in messages.
func (c choice) text() string {
	var all []string
	for _, r := range config.Rows() {
		if c.given[r.Key] {
			all = append(all, fmt.Sprintf("%s=%v", r.Flag(), c.values[r.Key]))
		}
	}
	return strings.Join(all, ", ")
}
