package cli

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/privgrad/privgrad/internal/plan"
)

// Typed are the wanted settings of a configuration as a person would type them, each behind a
// space, without those that are as they are by default.
func Typed(c *plan.Config, wanted func(plan.Setting) bool) string {
	var typed strings.Builder
	initial := plan.Default()
	for _, s := range plan.Settings() {
		if !wanted(s) || reflect.DeepEqual(s.Field(c), s.Field(&initial)) {
			continue
		}
		fmt.Fprintf(&typed, " --%s", s.Flag())
		switch v := reflect.Indirect(reflect.ValueOf(s.Field(c)).Elem()).Interface().(type) {
		case bool:
			if !v {
				typed.WriteString("=false")
			}
		case []string:
			typed.WriteString(" " + Quote(strings.Join(v, ",")))
		case []int:
			typed.WriteString(" " + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]"))
		default:
			typed.WriteString(" " + Quote(fmt.Sprint(v)))
		}
	}
	return typed.String()
}
