package folder

import (
	"bytes"
	"errors"
	"fmt"
	"image/jpeg"
	"io"
	"strings"
)

// convert is what to do about an image of another kind.
const convert = ": convert it to PNG or JPEG"

// kinds are files that are taken for images, by the bytes at their beginning. A dot stands for any byte.
var kinds = []struct{ start, what string }{
	{"GIF8", "is a GIF image" + convert},
	{"RIFF....WEBP", "is a WebP image" + convert},
	{"....ftypavi", "is an AVIF image" + convert},
	{"....ftyphe", "is a HEIC image" + convert},
	{"....ftypm", "is a HEIF image, or a film: convert it, or a picture of it, to PNG or JPEG"},
	{"....ftyp", "is a film: convert pictures of it to PNG or JPEG"},
	{"II*\x00", "is a TIFF image, or a camera's raw one" + convert},
	{"MM\x00*", "is a TIFF image, or a camera's raw one" + convert},
	{"II+\x00", "is a TIFF image" + convert},
	{"MM\x00+", "is a TIFF image" + convert},
	{"BM", "is a BMP image" + convert},
	{"\x00\x00\x00\x0cjP  ", "is a JPEG 2000 image" + convert},
	{"\xff\x4f\xff\x51", "is a JPEG 2000 image" + convert},
	{"\x00\x00\x00\x0cJXL ", "is a JPEG XL image" + convert},
	{"\xff\x0a", "is a JPEG XL image" + convert},
	{"\x8aMNG", "is an MNG film: convert pictures of it to PNG or JPEG"},
	{"8BPS", "is a Photoshop image" + convert},
	{"\x00\x00\x01\x00", "is an icon of Windows" + convert},
	{"%PDF", "is a PDF document: convert its pages to PNG or JPEG"},
	{"%!PS", "is a PostScript document: convert its pages to PNG or JPEG"},
	{"\x00\x05\x16\x07", "is a companion of another file, as macOS writes it, and no image: leave it out"},
	{"PK\x03\x04", "is a zip archive, and no image: unpack it; of one that numpy.savez wrote, save each array by numpy.save"},
	{"\x93NUMPY", "is an array of numpy, and no image: name it so that it ends in .npy"},
	{"version https://git-lfs", "is a pointer to a file that Git LFS has not fetched: run `git lfs pull`"},
	{"<svg", "is an SVG image" + convert},
	{"<?xml", "is an SVG image, or other text" + convert},
	{"<!DOCTYPE", "is a web page, and no image: fetch it again"},
	{"<!doctype", "is a web page, and no image: fetch it again"},
	{"<html", "is a web page, and no image: fetch it again"},
}

const pngStart, jpegStart = "\x89PNG", "\xff\xd8"

// wrong says what is wrong with the content of a file that was not decoded; err is the decoder's.
func wrong(data []byte, err error) error {
	isPNG, isJPEG := begins(data, pngStart), begins(data, jpegStart)
	markers := jpegHeader{}
	if isJPEG {
		markers = scanJPEG(data)
	}
	switch {
	case len(data) == 0:
		return errors.New("is empty: copy it again, or leave it out")
	case markers.unread() != "":
		return errors.New(markers.unread())
	case isPNG && !bytes.Contains(data, []byte("IEND")) || isJPEG && !markers.ended:
		return errors.New("ends too early: copy it again, or leave it out")
	case isPNG:
		return fmt.Errorf("is a damaged PNG (%w): copy it again, or leave it out", err)
	case isJPEG:
		if u := jpeg.UnsupportedError(""); errors.As(err, &u) {
			return fmt.Errorf("is a JPEG of a kind that is not supported (%s)%s", string(u), convert)
		}
		return fmt.Errorf("is a damaged JPEG (%w): copy it again, or leave it out", err)
	}
	for _, k := range kinds {
		if begins(data, k.start) {
			return errors.New(k.what)
		}
	}
	return errors.New("is no PNG and no JPEG: convert it, or leave it out")
}

func begins(data []byte, start string) bool {
	if len(data) < len(start) {
		return false
	}
	for i, b := range []byte(start) {
		if b != '.' && b != data[i] {
			return false
		}
	}
	return true
}

// jpegHeader is what a JPEG's markers say of it.
type jpegHeader struct {
	frame      byte // the marker of its frame, which is its kind; 0: none came
	bits       int  // of a value
	components int
	scans      int
	ended      bool
}

// scanJPEG goes from marker to marker up to the end of the image, and looks at nothing between them.
func scanJPEG(data []byte) (h jpegHeader) {
	for i := 2; i+1 < len(data); {
		marker := data[i+1]
		switch {
		case data[i] != 0xff, marker == 0xff: // an image's data, or a filling
			next := bytes.IndexByte(data[i+1:], 0xff)
			if next < 0 {
				return h
			}
			i += 1 + next
			continue
		case marker == 0, marker >= 0xd0 && marker <= 0xd7: // part of an image's data
			i += 2
			continue
		case marker == 0xd9 || i+4 > len(data): // its end
			h.ended = marker == 0xd9
			return h
		}
		isFrame := marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc || marker == 0xf7
		if isFrame && h.frame == 0 && i+10 <= len(data) {
			h.frame, h.bits, h.components = marker, int(data[i+4]), int(data[i+9])
		}
		if marker == 0xda {
			h.scans++
		}
		i += 2 + int(data[i+2])<<8 + int(data[i+3])
	}
	return h
}

// unread says which kind of JPEG it is that is not supported; "" of one that is.
func (h jpegHeader) unread() string {
	kind := ""
	switch {
	case h.frame == 0:
		return ""
	case h.frame == 0xf7:
		kind = "a JPEG-LS image"
	case h.frame >= 0xc9:
		kind = "a JPEG with arithmetic coding"
	case h.frame == 0xc3:
		kind = "a lossless JPEG"
	case h.frame >= 0xc5:
		kind = "a hierarchical JPEG"
	case h.bits != 8:
		kind = fmt.Sprintf("a JPEG of %d bits a value", h.bits)
	case h.components != 1 && h.components != 3 && h.components != 4:
		kind = fmt.Sprintf("a JPEG of %d components", h.components)
	default:
		return ""
	}
	return "is " + kind + ", which is not supported" + convert
}

// adobe is the marker that says of four components that they are inks as Adobe's programs write them: inverted. Such an
// image without it is read the same, as other programs do.
const adobe = "\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"

// marked is a JPEG that says of what its components are. A marker of its own comes later, and counts.
func marked(data []byte) io.Reader {
	return io.MultiReader(strings.NewReader(jpegStart+adobe), bytes.NewReader(data[len(jpegStart):]))
}
