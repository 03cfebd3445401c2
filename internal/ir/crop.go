package ir

import "fmt"

// crop moves an image by up to Margin pixels each way, beyond its border by its mirror image.
var crop = mapping{name: "crop", drawn: true, usual: Map{Margin: 4}, check: func(m Map, shape []int) error {
	if err := checkImage(shape); err != nil {
		return err
	}
	if m.Margin < 1 || m.Margin >= min(shape[1], shape[2]) || m.Margin > MostMargin {
		return fmt.Errorf("has a margin of %d pixels, which must be from 1 to %d and less than an image of %d×%d has", m.Margin, MostMargin, shape[1], shape[2])
	}
	return nil
}}

// MostMargin bounds a Crop's.
const MostMargin = 64

// Shift is by how many rows and columns the view of a word moves: pixel (y, x) is then the image's (y + down, x + right). Each is
// uniform on −Margin … Margin up to 2⁻⁸ of its probability, and both are independent of each other and of Flips.
func (m Map) Shift(word uint32) (down, right int) {
	width := uint32(2*m.Margin + 1)
	return int((word&0x7fff)*width>>15) - m.Margin, int((word>>15&0x7fff)*width>>15) - m.Margin
}
