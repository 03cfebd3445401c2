// Package peak keeps a processor's multiply-add units busy and does nothing else: the speed that a matrix product can be
// held against, on the machine and at the clock of the moment.
package peak

//go:generate go run -C ../gen .

// FLOPs is the arithmetic of one round: two multiply-adds in each of twelve registers of eight float32.
const FLOPs = 2 * 12 * 8 * 2
