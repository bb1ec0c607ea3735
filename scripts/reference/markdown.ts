// Markdown that GitHub and a site generator read alike: angle brackets and braces stand in code only.

export function code(text: string): string {
  return `\`${text}\``;
}

export function fenced(language: string, text: string): string {
  return `\`\`\`${language}\n${text}\n\`\`\``;
}

/** Text for a cell: on one line, bars escaped. */
export function cell(text: string): string {
  return text
    .replace(/\s*\n\s*/g, " ")
    .replace(/(?<!\\)\|/g, "\\|")
    .trim();
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
