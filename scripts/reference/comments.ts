/** What a doc comment says. */
export interface Comment {
  /** Markdown: paragraphs in one line each, code as it stands. */
  readonly text: string;
  /** Of an option: what its last sentence, "Default …", says. */
  readonly fallback: string | undefined;
}

/** The sentence on the default is the last one and has no other sentence in it. */
const DEFAULT = /(?:^|\s)Default:? ([^\n]+)\.$/;

export function commentOf(text: string): Comment {
  const joined = text
    .split(/(^```[\s\S]*?^```$)/m)
    .map((part) => (part.startsWith("```") ? part : part.replace(/(?<!\n)\n(?!\n|- )/g, " ")))
    .join("")
    .trim();
  const [found, fallback] = DEFAULT.exec(joined) ?? [];
  if (found === undefined) return { text: joined, fallback: undefined };
  return { text: joined.slice(0, -found.length).trim(), fallback };
}
