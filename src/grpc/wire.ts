import { type EntryText, entryText } from "../edge/template.ts";

// The wire format of protocol buffers, as far as our messages need it: varints, bytes, doubles; groups are skipped.

/** Bytes that are no message. */
export class MessageInvalid extends Error {}

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const GROUP = 3;
const GROUP_END = 4;
const FIXED32 = 5;

/** Groups in groups that are skipped at most. */
const DEPTH_MAX = 100;

/** Reads the fields of one message. */
export class Reader {
  readonly #bytes: Buffer;
  #at = 0;
  #wire = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** The number of the next field; 0 at the end. */
  next(): number {
    if (this.#at === this.#bytes.length) return 0;
    const tag = this.#varint32();
    this.#wire = tag & 7;
    const field = tag >>> 3;
    if (field === 0) throw new MessageInvalid("a field has the number 0");
    return field;
  }

  /** A whole number; the nearest one that a number can hold, if it is above 2^53. Undefined, and skipped: the field is of another form. */
  whole(): number | undefined {
    return this.#wire === VARINT ? this.#varint64() : this.skip();
  }

  /** The lower 32 bits of a whole number. */
  whole32(): number | undefined {
    return this.#wire === VARINT ? this.#varint32() : this.skip();
  }

  text(): EntryText | undefined {
    const bytes = this.bytes();
    return bytes && entryText(bytes);
  }

  bytes(): Buffer | undefined {
    if (this.#wire !== BYTES) return this.skip();
    const length = this.#varint64();
    const from = this.#at;
    this.#move(length);
    return this.#bytes.subarray(from, this.#at);
  }

  skip(): undefined {
    this.#skip(this.#wire, 0);
  }

  #skip(wire: number, depth: number): void {
    if (wire === VARINT) this.#varint64();
    else if (wire === FIXED64) this.#move(8);
    else if (wire === FIXED32) this.#move(4);
    else if (wire === BYTES) this.#move(this.#varint64());
    else if (wire === GROUP && depth < DEPTH_MAX) this.#skipGroup(depth);
    else throw new MessageInvalid(`a field has the wire type ${wire}`);
  }

  #skipGroup(depth: number): void {
    for (;;) {
      if (this.#at === this.#bytes.length) throw new MessageInvalid("a group has no end");
      const wire = this.#varint32() & 7;
      if (wire === GROUP_END) return;
      this.#skip(wire, depth + 1);
    }
  }

  #move(length: number): void {
    if (length > this.#bytes.length - this.#at) throw new MessageInvalid("it is cut off");
    this.#at += length;
  }

  #varint32(): number {
    const first = this.#bytes[this.#at];
    if (first !== undefined && first < 0x80) {
      this.#at += 1;
      return first;
    }
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#byte(shift);
      if (shift < 32) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
  }

  #varint64(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#byte(shift);
      // The tenth byte has one bit.
      value += (shift === 63 ? byte & 1 : byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  }

  #byte(shift: number): number {
    const byte = this.#bytes[this.#at++];
    if (byte === undefined) throw new MessageInvalid("it is cut off");
    if (shift > 63) throw new MessageInvalid("a number is too long");
    return byte;
  }
}

/** Writes one message. Fields that have their default value are left out by who calls it, where the format wants that. */
export class Writer {
  #bytes = Buffer.allocUnsafe(512);
  #at: number;

  /** `before`: so many bytes are left free at the beginning. */
  constructor(before: number) {
    this.#at = before;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  whole(field: number, value: number): this {
    this.#reserve(20);
    this.#varint(field * 8 + VARINT);
    this.#varint(value);
    return this;
  }

  text(field: number, text: string): this {
    // No character of a text takes more than three bytes.
    this.#reserve(20 + 3 * text.length);
    this.#varint(field * 8 + BYTES);
    const from = this.#at;
    this.#at += 1 + this.#bytes.write(text, from + 1, "utf8");
    this.#setLength(from);
    return this;
  }

  double(field: number, value: number): this {
    this.#reserve(20);
    this.#varint(field * 8 + FIXED64);
    this.#bytes.writeDoubleLE(value, this.#at);
    this.#at += 8;
    return this;
  }

  /** A message in the message. */
  message(field: number, write: (to: this) => void): this {
    this.#reserve(20);
    this.#varint(field * 8 + BYTES);
    const from = this.#at++;
    write(this);
    this.#setLength(from);
    return this;
  }

  /** Writes the length of what stands behind `from`, which has one byte for it. */
  #setLength(from: number): void {
    const length = this.#at - from - 1;
    if (length < 0x80) {
      this.#bytes[from] = length;
      return;
    }
    const more = length < 0x4000 ? 1 : length < 0x20_0000 ? 2 : 3;
    this.#reserve(more);
    this.#bytes.copyWithin(from + 1 + more, from + 1, this.#at);
    const end = this.#at + more;
    this.#at = from;
    this.#varint(length);
    this.#at = end;
  }

  #varint(value: number): void {
    let left = value;
    for (; left >= 0x80; left = Math.floor(left / 0x80)) this.#bytes[this.#at++] = (left % 0x80) | 0x80;
    this.#bytes[this.#at++] = left;
  }

  #reserve(length: number): void {
    if (this.#at + length <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#at + length));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}
