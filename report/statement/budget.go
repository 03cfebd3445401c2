package statement

// budget says what is known of a budget for the data, and of other runs on them.
func (r *run) budget() []string {
	return []string{
		"This statement is about this run alone. Any other training run on the same data reveals something more, also one whose model was thrown away after someone had looked at it.",
		"The ε of such runs add up. privgrad does not know which other runs there were; the owner of the data has to keep count.",
		"For several runs at hand, `privgrad report A B --out both.html`, with the directories of the runs in the place of A and B, works out what they reveal together.",
	}
}
