package main

import (
	"fmt"
	"regexp"
	"strconv"
)

// heading is one of a version in the changelog, or of what is not released yet.
var heading = regexp.MustCompile(`(?m)^## (?:(Unreleased)|v(\d+)\.(\d+)\.(\d+)\b)`)

// versionOf is the version of the sources by their changelog: that of the first heading, or, where that is Unreleased, a
// development version of the minor version that comes next.
func versionOf(changelog string) (string, error) {
	unreleased := false
	for _, h := range heading.FindAllStringSubmatch(changelog, -1) {
		switch {
		case h[1] != "":
			unreleased = true
		case unreleased:
			minor, err := strconv.Atoi(h[3])
			return fmt.Sprintf("%s.%d.0.dev0", h[2], minor+1), err
		default:
			return fmt.Sprintf("%s.%s.%s", h[2], h[3], h[4]), nil
		}
	}
	return "", fmt.Errorf("CHANGELOG.md has no heading of a version, such as ## v0.2.0: add one")
}
