//go:build long

package exact

// longer is how many times the draws of a short test a test makes.
const longer = 30
