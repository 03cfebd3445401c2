package erm

// The data sets of the paper. It does not give the scale of features and targets: features are
// scaled from public bounds and clipped, rentals are counted in hundreds.
var benchmarks = []*benchmark{
	{
		name: "BANK", file: "bank-full.csv", drop: true, loss: logistic, curve: 0.25, scale: 1, ridge: 0.1, dim: 42, here: 43, records: 45211,
		theirs:  rows{{0.3983, 0.2231, 0.1459, 0.0838}, {0.2566, 0.0106, 0.0025, 0.0005}},
		bassily: rows{{2.2552, 1.4585, 1.0203, 0.7824}, {0.4829, 0.4090, 0.3387, 0.2475}},
	},
	{
		name: "ADULT", file: "adult.data", drop: true, loss: logistic, curve: 0.25, scale: 1, ridge: 0.1, dim: 110, here: 101, records: 32561,
		theirs:  rows{{0.0499, 0.0208, 0.0122, 0.0065}, {3.2039, 0.1287, 0.0309, 0.0080}},
		bassily: rows{{0.6229, 0.6081, 0.4781, 0.3691}, {5.2166, 5.1532, 5.1148, 5.1009}},
	},
	{
		name: "CreditCard", file: "UCI_Credit_Card.csv", loss: logistic, curve: 0.25, scale: 1, ridge: 0.1, dim: 34, here: 34, records: 30000,
		theirs:  rows{{0.0293, 0.0102, 0.0053, 0.0024}, {0.3643, 0.0141, 0.0035, 0.0008}},
		bassily: rows{{0.4106, 0.4220, 0.3140, 0.2708}, {1.3271, 1.2973, 1.2792, 1.2501}},
	},
	{
		name: "WINE", schema: "wine", file: "winequality-red.csv", loss: huber, curve: 1, scale: 10, ridge: 0.5, dim: 12, here: 13, records: 6497,
		theirs:  rows{{0.6061, 0.2487, 0.1713, 0.1110}, {1.0842, 0.0364, 0.0101, 0.0024}},
		bassily: rows{{6.1755, 4.1900, 3.0972, 1.3609}, {8.2900, 7.9584, 6.5471, 5.3811}},
	},
	{
		name: "BIKE", file: "hour.csv", loss: huber, curve: 1, scale: 10, ridge: 0.5, dim: 62, here: 62, records: 17379,
		theirs:  rows{{5.4659, 4.0404, 3.2768, 2.4081}, {0.0555, 0.0301, 0.0242, 0.0232}},
		bassily: rows{{35.279, 30.822, 27.196, 23.865}, {3.0770, 3.0448, 2.1792, 1.0406}},
	},
}
