package datasets

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/stream"
)

// MostOfUser bounds the public number of records that one user may add.
const MostOfUser = 256

// Units is how many units a split has: its users where they have several rows each, else its records.
func (m Split) Units() int { return m.Len() / max(m.UnitRows, 1) }

// ByUser is the set with users as the units of its training split, each with exactly most rows, one behind the other. Users stand in the
// order of their first usable record.
//
// A usable record has a user, a label that is a class or a finite number, and finite values. Others are left out, and so is a user without
// one. Of a user with more than most usable records, which are kept is drawn from the key. A user with fewer has some of them more
// than once, as evenly as it goes.
//
// The rows of a user follow from the user's own records and from words that no other user has. So one user more or less changes one
// unit. The number of users is not known beforehand: the set has no published size any more.
func (s *Set) ByUser(most int, key stream.Key) (*Set, error) {
	words, err := stream.New(stream.ChaCha20, key)
	if err != nil {
		return nil, err
	}
	by := *s
	by.PublicN, by.PerClass, by.Share, by.Moves = 0, nil, 0, true
	by.Train = s.Train.empty()
	by.Train.UnitRows = most
	users := s.usable()
	if int64(len(users))*int64(most) > math.MaxInt32 {
		return nil, fmt.Errorf("records-per-user %d: all users together have more than the %d rows that a table can have; give a smaller --records-per-user", most, math.MaxInt32)
	}
	for number, records := range users {
		order := shuffled(records, words, uint64(number))
		for k := range most {
			by.Train.add(&s.Train, order[k%len(order)])
		}
	}
	return &by, nil
}

// usable are the usable records of each user.
func (s *Set) usable() (of [][]int) {
	m, numbers, width := &s.Train, map[string]int{}, size(s.Train.Shape)
	for i := range m.Len() {
		user := ""
		if i < len(m.Users) {
			user = m.Users[i]
		}
		bad := m.Targets == nil && int(m.Labels[i]) >= s.Classes || m.Targets != nil && notFinite(m.Targets[i])
		if user == "" || bad || m.Values != nil && slices.ContainsFunc(m.Values[i*width:(i+1)*width], notFinite) {
			continue
		}
		n, known := numbers[user]
		if !known {
			n = len(of)
			numbers[user], of = n, append(of, nil)
		}
		of[n] = append(of[n], i)
	}
	return of
}

func notFinite(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) }

// shuffled are a user's records in a random order, by the words of the user's number.
func shuffled(records []int, words *stream.Stream, number uint64) []int {
	text := make([]byte, 8*len(records))
	words.Fill(text, number, 0)
	type drawn struct {
		word   uint64
		record int
	}
	all := make([]drawn, len(records))
	for k, i := range records {
		all[k] = drawn{binary.LittleEndian.Uint64(text[8*k:]), i}
	}
	slices.SortStableFunc(all, func(a, b drawn) int { return cmp.Compare(a.word, b.word) })
	order := make([]int, len(records))
	for k, d := range all {
		order[k] = d.record
	}
	return order
}

// empty is a split of the same form without records.
func (m *Split) empty() Split { return Split{Shape: m.Shape, Unit: m.Unit} }

// add appends a record of another split of the same form.
func (m *Split) add(from *Split, i int) {
	width := size(m.Shape)
	if from.Features != nil {
		m.Features = append(m.Features, from.Features[i*width:(i+1)*width]...)
	}
	if from.Values != nil {
		m.Values = append(m.Values, from.Values[i*width:(i+1)*width]...)
	}
	if from.Labels != nil {
		m.Labels = append(m.Labels, from.Labels[i])
	}
	if from.Targets != nil {
		m.Targets = append(m.Targets, from.Targets[i])
	}
}
