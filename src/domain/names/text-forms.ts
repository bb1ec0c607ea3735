// Two ways to write any text with letters, digits, `-` and `_`. Both keep halves of characters (lone surrogates), which UTF-8 has
// no room for, and both are read back only as far as they are written: what else is there is for the caller to compare.

/** The text with everything that is not allowed, and `_`, as `_7C` (below 256) or `_u20AC`, one UTF-16 unit after the other. */
export function escaped(text: string, allowed: RegExp): string {
  let form = "";
  for (let i = 0; i < text.length; i++) {
    const unit = text.charAt(i);
    const code = text.charCodeAt(i);
    if (unit !== "_" && allowed.test(unit)) form += unit;
    else form += code < 256 ? `_${hex(code, 2)}` : `_u${hex(code, 4)}`;
  }
  return form;
}

export function unescaped(form: string): string | undefined {
  let text = "";
  for (let i = 0; i < form.length; i++) {
    if (form.charAt(i) !== "_") {
      text += form.charAt(i);
      continue;
    }
    const [whole, four, two] = /^_(?:u([0-9A-F]{4})|([0-9A-F]{2}))/.exec(form.slice(i, i + 6)) ?? [];
    if (whole === undefined) return undefined;
    text += String.fromCharCode(Number.parseInt(four ?? two ?? "", 16));
    i += whole.length - 1;
  }
  return text;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** The bytes of the text, six bits a digit. */
export function packed(text: string): string {
  let form = "";
  let bits = 0;
  let held = 0;
  for (const byte of bytesOf(text)) {
    held = (held << 8) | byte;
    for (bits += 8; bits >= 6; bits -= 6) form += DIGITS.charAt((held >> (bits - 6)) & 63);
    held &= (1 << bits) - 1;
  }
  return bits === 0 ? form : form + DIGITS.charAt((held << (6 - bits)) & 63);
}

export function unpacked(form: string): string | undefined {
  const bytes: number[] = [];
  let bits = 0;
  let held = 0;
  for (const digit of form) {
    const value = DIGITS.indexOf(digit);
    if (value < 0) return undefined;
    held = (held << 6) | value;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push(held >> bits);
    held &= (1 << bits) - 1;
  }
  return textOfBytes(bytes);
}

/** UTF-8, in which half a character is written like a whole one of its number. */
function bytesOf(text: string): number[] {
  const bytes: number[] = [];
  for (const character of text) {
    const code = character.codePointAt(0) as number;
    const more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x1_0000 ? 2 : 3;
    bytes.push(more === 0 ? code : ((0xf00 >> (more + 1)) & 0xff) | (code >> (6 * more)));
    for (let i = more - 1; i >= 0; i--) bytes.push(0x80 | ((code >> (6 * i)) & 0x3f));
  }
  return bytes;
}

function textOfBytes(bytes: readonly number[]): string | undefined {
  let text = "";
  for (let i = 0; i < bytes.length; ) {
    const first = bytes[i++] as number;
    const more = first < 0x80 ? 0 : first < 0xc0 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf8 ? 3 : -1;
    if (more < 0 || i + more > bytes.length) return undefined;
    let code = more === 0 ? first : first & (0x3f >> more);
    for (let j = 0; j < more; j++) code = (code << 6) | ((bytes[i++] as number) & 0x3f);
    if (code > 0x10_ffff) return undefined;
    text += String.fromCodePoint(code);
  }
  return text;
}

function hex(code: number, digits: number): string {
  return code.toString(16).toUpperCase().padStart(digits, "0");
}
