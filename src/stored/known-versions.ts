import { type LimitsVersion, versionsFrom } from "../domain/config/config-versions.ts";

/** The same list for the same text: sets of limits are made once for a list. */
export function knownVersions(text: string): readonly LimitsVersion[] | undefined {
  let versions = byText.get(text);
  if (versions === undefined) {
    versions = versionsFrom(text);
    if (versions === undefined) return undefined;
    if (byText.size >= TEXTS_MAX) byText.clear();
    byText.set(text, versions);
  }
  return versions;
}

const TEXTS_MAX = 1_000;
const byText = new Map<string, readonly LimitsVersion[]>();
