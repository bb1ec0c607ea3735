const PLAIN = /^[\x20-\x7e]*$/;

// Scripts whose characters take two columns of a terminal (Unicode's East Asian widths W and F), and pictures.
const WIDE =
  /^(?:[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]|[\u{17000}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|.\ufe0f)/u;
const UNSEEN = /^[\p{Mark}\p{Format}\p{Surrogate}]+$/u;

/** How many columns of a terminal a text takes: Chinese, Japanese and Korean characters take two, and so do most emoji. */
export function textWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  return charactersOf(text).reduce((width, character) => width + characterWidth(character), 0);
}

/** What somebody sees as one character may be several to a program: it is never torn apart. */
export function charactersOf(text: string): readonly string[] {
  if (PLAIN.test(text)) return [...text];
  return Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
}

function characterWidth(character: string): number {
  if (WIDE.test(character)) return 2;
  return UNSEEN.test(character) ? 0 : 1;
}
