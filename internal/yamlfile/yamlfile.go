// Package yamlfile reads YAML files that people write: strictly, so that a slip is an
// error and not another setting.
package yamlfile

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// ErrEmpty says that a file holds nothing; what was to be filled in is as it was.
var ErrEmpty = errors.New("it is empty")

// Decode reads one document over a pointer to a struct. Keys that it does not have are
// errors, as are numbers that YAML reads as others than they look: 2.9 where a whole
// number belongs, which would become 2, and 010, which would become 8. Where a text
// belongs, what YAML takes for a number or for true keeps its characters: +1 and 1.0 are
// names. Errors name the line, or a key where it looks like one: the file may be one of
// data, given by mistake.
func Decode(text []byte, into any) error {
	text, err := written.Text(text)
	if err != nil {
		return err
	}
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		return asText(err)
	}
	switch {
	case len(f.Docs) > 1:
		return errors.New("it holds more than one document: write one")
	case len(f.Docs) == 0 || f.Docs[0].Body == nil:
		return ErrEmpty
	}
	if err := check(&f.Docs[0].Body, reflect.TypeOf(into), ""); err != nil {
		return err
	}
	if err := yaml.NodeToValue(f.Docs[0].Body, into, yaml.DisallowUnknownField()); err != nil {
		return asText(err)
	}
	return nil
}

// Rename writes a key of the document itself by another name, whether the document is a block
// or in braces. A text that is no YAML stays as it is.
func Rename(text []byte, from, to string) []byte {
	text = written.Unmarked(text)
	f, err := parser.ParseBytes(text, 0)
	if err != nil || len(f.Docs) == 0 {
		return text
	}
	lines := strings.SplitAfter(string(text), "\n")
	for _, key := range slices.Backward(topKeys(f.Docs[0].Body)) { // the last of a line first
		if at := key.Position; key.Value == from && at.Line <= len(lines) {
			line := []rune(lines[at.Line-1])
			before := string(line[:min(at.Column-1, len(line))])
			lines[at.Line-1] = before + strings.Replace(string(line[len([]rune(before)):]), from, to, 1)
		}
	}
	return []byte(strings.Join(lines, ""))
}

// topKeys are those of a document, in its order.
func topKeys(body ast.Node) (keys []*token.Token) {
	switch n := body.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			keys = append(keys, v.Key.GetToken())
		}
	case *ast.MappingValueNode:
		keys = append(keys, n.Key.GetToken())
	}
	return keys
}

func asText(err error) error {
	text := strings.TrimSpace(yaml.FormatError(err, false, false))
	text = misplaced.ReplaceAllStringFunc(text, func(found string) string {
		part := misplaced.FindStringSubmatch(found)
		return fmt.Sprintf("must be %s, not %s", given(part[2]), given(part[1]))
	})
	return concealed(mistyped.ReplaceAllStringFunc(text, func(found string) string {
		part := mistyped.FindStringSubmatch(found)
		return fmt.Sprintf("must be %s, not %s", plainly(part[2]), given(part[1]))
	}))
}

// mistyped is how the decoder speaks of a value of another type than its field's.
var mistyped = regexp.MustCompile(`cannot unmarshal (\S+|\[\]interface \{\}|map\[\S+ \{\}) into Go (?:struct field \S+|value) of type (\S+)`)

// misplaced is how it speaks of a list, a mapping or a single value where another of them belongs.
var misplaced = regexp.MustCompile(`(\w+) was used where (\w+) is expected`)

// given is a value's type, or kind, in words.
func given(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"), goType == "sequence":
		return "a list"
	case strings.HasPrefix(goType, "map"), goType == "mapping":
		return "keys with values"
	case goType == "string":
		return "a text"
	case goType == "null":
		return "nothing"
	case goType == "bool", goType == "boolean":
		return "true or false"
	}
	return "a number"
}

// plainly is a type in words.
func plainly(goType string) string {
	switch name := strings.TrimLeft(goType, "*"); {
	case strings.HasPrefix(name, "[]"):
		return "a list, such as [3, 5]"
	case strings.HasPrefix(name, "float"):
		return "a number"
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"):
		return "a whole number"
	case name == "bool":
		return "true or false"
	case name == "string":
		return "a text"
	}
	return "keys with values"
}

var (
	quoted = regexp.MustCompile(`(?s) ".*"`)
	plain  = regexp.MustCompile(`^ "[A-Za-z][A-Za-z0-9_-]{0,39}"$`) // as keys are
)

// concealed is an error without the file's own words, unless they look like a key.
func concealed(text string) error {
	return errors.New(quoted.ReplaceAllStringFunc(text, func(words string) string {
		if plain.MatchString(words) {
			return words
		}
		return ""
	}))
}

// place is where a node begins, as the decoder's errors write it.
func place(n ast.Node) string {
	at := n.GetToken().Position
	return fmt.Sprintf("[%d:%d]", at.Line, at.Column)
}

// decimal is a number as everybody reads it.
var decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?$`)

// zeros is a number that begins with zeros that it does not need.
var zeros = regexp.MustCompile(`^[-+]?0[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?$`)

// whole reports whether a type holds whole numbers alone, and whether a text is one of them.
func whole(t reflect.Type, text string) (is, fits bool) {
	var err error
	switch zero := reflect.Zero(t); {
	case zero.CanInt():
		_, err = strconv.ParseInt(text, 10, t.Bits())
	case zero.CanUint():
		_, err = strconv.ParseUint(text, 10, t.Bits())
	default:
		return false, false
	}
	return true, err == nil && decimal.MatchString(text)
}

// check looks at the scalars of a node that goes into a type, and at the keys of structs:
// of a mapping with a key that is no text, such as 39, the decoder silently reads nothing
// at all. What else is wrong the decoder finds.
func check(at *ast.Node, t reflect.Type, key string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := (*at).(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err := checkKey(v, t, key); err != nil {
				return err
			}
		}
	case *ast.MappingValueNode:
		return checkKey(n, t, key)
	case *ast.SequenceNode:
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		for i, v := range n.Values {
			if _, none := v.(*ast.NullNode); none { // which would become 0, or a name without characters
				return fmt.Errorf("%s %s has an item that is none: write its value, in quotes if it is a name", place(v), key)
			}
			if err := check(&n.Values[i], t, key); err != nil {
				return err
			}
		}
	case *ast.AnchorNode:
		return check(&n.Value, t, key)
	case *ast.AliasNode, *ast.TagNode: // what they make of a number would go unchecked
		return errors.New(place(n) + " write the value itself, without YAML's aliases (*) and tags (!)")
	case *ast.NullNode:
		if t.Kind() == reflect.Struct && key != "" { // others may be null, which is their default
			return fmt.Errorf("%s %s has no value: write one, or leave the key out", place(n), key)
		}
	case ast.ScalarNode:
		if holdsText(t) {
			*at = asWritten(n)
			return nil
		}
		return checkNumber(n, t, key)
	}
	return nil
}

// checkKey looks at a key, and at the value behind it.
func checkKey(n *ast.MappingValueNode, t reflect.Type, key string) error {
	name := n.Key.GetToken().Value
	if name == "<<" {
		return errors.New("it merges keys by <<: write each key by itself")
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	f, ok := Field(t, name)
	if !ok {
		unknown := concealed(place(n.Key) + ` unknown field "` + name + `"`)
		return fmt.Errorf("%w%s", unknown, usage.Meant(name, keys(t)))
	}
	return check(&n.Value, f.Type, strings.TrimPrefix(key+"."+name, "."))
}

// holdsText reports whether a scalar in the place of a type is a text: of a text, or of texts of which it is the one.
func holdsText(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String
}

// asWritten is a scalar as a text: without quotes, the decoder would read +1 as "1", and 010 as "8".
func asWritten(n ast.ScalarNode) ast.Node {
	switch n.Type() {
	case ast.IntegerType, ast.FloatType, ast.BoolType, ast.InfinityType, ast.NanType:
		return ast.String(n.GetToken())
	}
	return n
}

// checkNumber refuses digits that are not decimal, also in quotes.
func checkNumber(n ast.ScalarNode, t reflect.Type, key string) error {
	text := n.GetToken().Value
	is, fits := whole(t, text)
	_, err := written.Number(text)
	number := token.ToNumber(text) != nil || errors.Is(err, written.ErrDigits)
	switch otherwise := number && !decimal.MatchString(text); {
	case (is && !fits || otherwise) && zeros.MatchString(text):
		return fmt.Errorf("%s %s: write the number without zeros in front, as some programs read such a number in octal digits", key, text)
	case is && !fits:
		return fmt.Errorf("%s %s: must be a whole number in decimal digits, such as 10", key, text)
	case otherwise:
		return fmt.Errorf("%s %s: must be a number in decimal digits, such as 10 or 1e-5", key, text)
	}
	return nil
}

// keys are those of a struct.
func keys(t reflect.Type) (all []string) {
	for f := range t.Fields() {
		switch name, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); {
		case options == inline:
			all = append(all, keys(f.Type)...)
		case name != "" && name != "-":
			all = append(all, name)
		}
	}
	return all
}

// Field is the field of a struct that a key names.
func Field(t reflect.Type, key string) (reflect.StructField, bool) {
	at := keyOf{t, key}
	if known, ok := fields.Load(at); ok {
		return known.(reflect.StructField), true
	}
	field, ok := fieldOf(t, key)
	if ok { // keys that no field has come from files, without end
		fields.Store(at, field)
	}
	return field, ok
}

// fields are those that were asked for: to look for one takes long.
var fields sync.Map // of keyOf to reflect.StructField

type keyOf struct {
	in  reflect.Type
	key string
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == key && key != "" && key != "-" {
			return f, true
		}
		if options == inline {
			if g, ok := Field(f.Type, key); ok {
				g.Index = append(slices.Clone(f.Index), g.Index...)
				return g, true
			}
		}
	}
	return reflect.StructField{}, false
}

// inline marks a struct whose keys stand among those of the struct around it.
const inline = "inline"
