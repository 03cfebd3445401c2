package ir

import (
	"fmt"
	"slices"
)

// Gather is what stands between a record's row and the first op: maps, in their order, each of one record by itself.
// The row's values come first, as its table has them. An empty list gathers these.
type Gather []Map

// MapKind says what a map does to a record's values.
type MapKind uint8

const (
	Scaled MapKind = iota // x·Scale + Offset of every value x, rounded to float32
	Flip                  // the mirror image, left to right, in half of the views
	Crop                  // the image moved by up to Margin pixels, with its mirror image beyond the border
)

// Map is one map of a Gather.
type Map struct {
	Kind          MapKind
	Scale, Offset float32 // Scaled: finite
	Margin        int     // Crop: pixels
}

// ScaledBy is the map x·scale + offset.
func ScaledBy(scale, offset float32) Map { return Map{Kind: Scaled, Scale: scale, Offset: offset} }

// maps are the definitions of all, by kind. A device has a table of its own of what it makes of each.
var maps = [...]mapping{
	Scaled: {name: "scaled", check: checkScaled},
	Flip:   flip,
	Crop:   crop,
}

type mapping struct {
	name string
	// drawn: what it does follows from a random word of the view, so that it stands in a schedule and not in a table.
	drawn bool
	usual Map // of a view, where nothing else was said
	// check says what is wrong with a map's numbers, and with records of such a shape for it.
	check func(m Map, shape []int) error
}

// Drawn says that a kind does something else in every view of a record.
func (k MapKind) Drawn() bool { return k.known() && maps[k].drawn }

// Augmentations names the kinds that make views of records.
func Augmentations() (names []string) {
	for _, m := range maps {
		if m.drawn {
			names = append(names, m.name)
		}
	}
	return names
}

// Augment has the usual maps of such names, in their order; of others none.
func Augment(names []string) (g Gather) {
	for _, name := range names {
		for k, of := range maps {
			if of.drawn && of.name == name {
				m := of.usual
				m.Kind = MapKind(k)
				g = append(g, m)
			}
		}
	}
	return g
}

// checkScaled takes records of any shape.
func checkScaled(m Map, _ []int) error {
	for _, v := range []float32{m.Scale, m.Offset} {
		if v-v != 0 {
			return fmt.Errorf("has the scale %v and the offset %v, which must be finite", m.Scale, m.Offset)
		}
	}
	return nil
}

// MapKinds lists all kinds.
func MapKinds() []MapKind {
	all := make([]MapKind, len(maps))
	for i := range all {
		all[i] = MapKind(i)
	}
	return all
}

func (k MapKind) known() bool { return int(k) < len(maps) }

func (k MapKind) String() string {
	if k.known() {
		return maps[k].name
	}
	return fmt.Sprintf("number %d", uint8(k))
}

// Validate checks a list for records of a shape. A map stands in it once.
func (g Gather) Validate(shape []int) error {
	for i, m := range g {
		if !m.Kind.known() {
			return fmt.Errorf("a gather has the map %s, and there are %d", m.Kind, len(maps))
		}
		if g[:i].Has(m.Kind) {
			return fmt.Errorf("a gather has the map %s twice; leave one out", m.Kind)
		}
		if err := maps[m.Kind].check(m, shape); err != nil {
			return fmt.Errorf("a gather's map %s %w", m.Kind, err)
		}
	}
	return nil
}

// Has says whether a map of a kind stands in the list.
func (g Gather) Has(k MapKind) bool {
	return slices.ContainsFunc(g, func(m Map) bool { return m.Kind == k })
}
