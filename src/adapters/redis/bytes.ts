import { endianness } from "node:os";

const isBigEndian = endianness() === "BE";

/** Numbers as the scripts read them: little-endian doubles. */
export function doubles(numbers: readonly number[]): Uint8Array {
  const bytes = Buffer.from(new Float64Array(numbers).buffer);
  return isBigEndian ? bytes.swap64() : bytes;
}

/** The same bytes, with the methods of a Buffer. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Reads the answer of a script from its beginning on. */
export class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bufferOf(bytes);
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  letter(): string {
    return String.fromCharCode(this.byte());
  }

  byte(): number {
    return this.#bytes[this.#at++] ?? 0;
  }

  number(): number {
    this.#at += 8;
    return this.#bytes.readDoubleLE(this.#at - 8);
  }

  size(): number {
    this.#at += 4;
    return this.#bytes.readUInt32LE(this.#at - 4);
  }

  bytes(size: number): Buffer {
    this.#at += size;
    return this.#bytes.subarray(this.#at - size, this.#at);
  }
}
