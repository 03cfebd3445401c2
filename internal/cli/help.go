package cli

import "github.com/privgrad/privgrad/internal/plan"

// Help is what is said of a setting of train, for commands that take it, too.
func Help(key string) string {
	for _, s := range plan.Settings() {
		if s.Key == key {
			return s.Help
		}
	}
	return ""
}
