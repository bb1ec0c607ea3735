/**
 * A limit by its name and how many levels up it stands, for those who must not read the ids above them: `day`, and `day^1` of the next
 * level. No name of a limit has a `^`.
 */
export function levelName(name: string, level: number): string {
  return level === 0 ? name : `${name}^${level}`;
}

/** Which level such a name is of. */
export function levelOfName(name: string): number {
  const mark = name.lastIndexOf("^");
  return mark < 0 ? 0 : Number(name.slice(mark + 1));
}
