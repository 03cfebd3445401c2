package datasets

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/stream"
)

// byUsers is a set of records with one value each, the number of the record, of random users.
func byUsers(seed uint64, records, users int) *Set {
	random := rand.New(rand.NewPCG(seed, 1))
	s := &Set{Name: "made", Classes: 2, PublicN: records, PerClass: []int{1, 2}, Share: 0.5, Train: Split{Shape: [3]int{1, 1, 1}, Unit: true}}
	for i := range records {
		user := ""
		if random.IntN(8) > 0 {
			user = fmt.Sprint(random.IntN(users) * random.IntN(2)) // user 0 has half of all
		}
		value, label := float32(i), uint8(random.IntN(2))
		switch random.IntN(20) {
		case 0:
			value = float32(math.NaN())
		case 1:
			label = NoClass
		}
		s.Train.Users, s.Train.Values, s.Train.Labels = append(s.Train.Users, user), append(s.Train.Values, value), append(s.Train.Labels, label)
	}
	return s
}

func grouped(t *testing.T, s *Set, most int, key uint64) *Set {
	t.Helper()
	by, err := s.ByUser(most, stream.KeyFromSeed(key, "users"))
	if err != nil {
		t.Fatal(err)
	}
	return by
}

// unitsOf are the rows of each unit, by the user whose they are.
func unitsOf(t *testing.T, s, by *Set) map[string][]int {
	t.Helper()
	all, k := map[string][]int{}, by.Train.UnitRows
	for u := range by.Train.Units() {
		var rows []int
		for i := u * k; i < (u+1)*k; i++ {
			n := int(by.Train.Values[i])
			if by.Train.Labels[i] != s.Train.Labels[n] {
				t.Fatalf("row %d has another label than record %d", i, n)
			}
			rows = append(rows, n)
		}
		user := s.Train.Users[rows[0]]
		if all[user] != nil {
			t.Fatalf("user %q is two units", user)
		}
		all[user] = rows
	}
	return all
}

func TestByUser(t *testing.T) {
	for _, most := range []int{1, 3, 8} {
		s := byUsers(uint64(most), 400, 60)
		by := grouped(t, s, most, 5)
		if by.PublicN != 0 || by.PerClass != nil || by.Share != 0 || !by.Moves || by.Train.Users != nil {
			t.Errorf("the set says %d, %v, %v, %v", by.PublicN, by.PerClass, by.Share, by.Moves)
		}
		usable := map[string][]int{}
		for i, user := range s.Train.Users {
			if v := s.Train.Values[i]; user != "" && v == v && s.Train.Labels[i] < 2 {
				usable[user] = append(usable[user], i)
			}
		}
		units := unitsOf(t, s, by)
		if len(units) != len(usable) {
			t.Errorf("%d users are units, %d have usable records", len(units), len(usable))
		}
		for user, rows := range units {
			times := map[int]int{}
			for _, i := range rows {
				if !slices.Contains(usable[user], i) {
					t.Fatalf("user %q has record %d", user, i)
				}
				times[i]++
			}
			if want := min(most, len(usable[user])); len(rows) != most || len(times) != want {
				t.Errorf("user %q has %d of %d records in %d rows, want %d", user, len(times), len(usable[user]), len(rows), want)
			}
			for _, n := range times {
				if n < most/len(times) || n > (most+len(times)-1)/len(times) {
					t.Errorf("user %q has a record %d times in %d rows of %d records", user, n, most, len(times))
				}
			}
		}
	}
}

// One user more or less leaves the units of those before as they are, and the users behind keep records of their own alone.
func TestByUserWithout(t *testing.T) {
	const most = 3
	s := byUsers(9, 300, 40)
	order := grouped(t, s, most, 6)
	all := unitsOf(t, s, order)
	for gone := range all {
		without := *s
		without.Train.Users = slices.Clone(s.Train.Users)
		for i, user := range without.Train.Users {
			if user == gone {
				without.Train.Users[i] = ""
			}
		}
		by := grouped(t, &without, most, 6)
		left := unitsOf(t, s, by)
		if _, there := left[gone]; there || len(left) != len(all)-1 {
			t.Fatalf("without user %q there are %d units of %d", gone, len(left), len(all))
		}
		for u := range by.Train.Units() {
			before := s.Train.Users[int(order.Train.Values[u*most])]
			if before == gone {
				break
			}
			if !slices.Equal(by.Train.Values[u*most:][:most], order.Train.Values[u*most:][:most]) {
				t.Fatalf("user %q, before %q, has other rows", before, gone)
			}
		}
	}
}

// Which records take part is drawn, each as likely as the others: 6,000 draws of 2 of 5, each count within 5 deviations. A right draw
// is refused with a probability below 3e-6.
func TestByUserDraws(t *testing.T) {
	s := &Set{Classes: 1, Train: Split{Shape: [3]int{1, 1, 1}, Unit: true}}
	const records, most, draws = 5, 2, 6000
	for i := range records {
		s.Train.Users, s.Train.Values, s.Train.Labels = append(s.Train.Users, "u"), append(s.Train.Values, float32(i)), append(s.Train.Labels, 0)
	}
	var count [records]int
	for key := range uint64(draws) {
		for _, v := range grouped(t, s, most, key).Train.Values {
			count[int(v)]++
		}
	}
	p := float64(most) / records
	for i, n := range count {
		if d := math.Abs(float64(n)-draws*p) / math.Sqrt(draws*p*(1-p)); d > 5 {
			t.Errorf("record %d was drawn %d times, %.1f deviations off", i, n, d)
		}
	}
}

// All rows of a user are on one rank.
func TestTakeUsers(t *testing.T) {
	s := byUsers(3, 200, 30)
	by := grouped(t, s, 4, 7)
	var all []float32
	for rank := range 3 {
		part, err := by.Take(Rank{Rank: rank, Of: 3})
		if err != nil {
			t.Fatal(err)
		}
		if part.Train.Len() != 4*part.Train.Units() || part.Train.Units() == 0 {
			t.Errorf("rank %d has %d rows of %d users", rank, part.Train.Len(), part.Train.Units())
		}
		all = append(all, part.Train.Values...)
	}
	if !slices.Equal(all, by.Train.Values) {
		t.Error("the ranks have other rows together")
	}
}

// Users follow their records where classes are chosen.
func TestKeepUsers(t *testing.T) {
	s := byUsers(4, 50, 10)
	kept, err := s.Keep([]int{1, 0})
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for i, l := range s.Train.Labels {
		if l < 2 {
			if kept.Train.Users[at] != s.Train.Users[i] {
				t.Fatalf("record %d is of %q", i, kept.Train.Users[at])
			}
			at++
		}
	}
	if at != len(kept.Train.Users) || at == len(s.Train.Labels) {
		t.Errorf("%d records were kept, with %d users", at, len(kept.Train.Users))
	}
}

// A row of a table has a number of 32 bits. What has more is refused before it is made, and no message counts users.
func TestByUserFitsATable(t *testing.T) {
	s := &Set{Classes: 2, Train: Split{Shape: [3]int{1, 1, 1}, Values: []float32{1, 2, 3}, Labels: []uint8{0, 1, 0}, Users: []string{"a", "b", "c"}}}
	_, err := s.ByUser(math.MaxInt32/3+1, stream.KeyFromSeed(1, "users"))
	if want := fmt.Sprintf("records-per-user %d: all users together have more than the %d rows that a table can have; give a smaller --records-per-user", math.MaxInt32/3+1, math.MaxInt32); err == nil || err.Error() != want {
		t.Errorf("the error is %v", err)
	}
}
