import { stringify } from "yaml";
import type { ManifestDocument } from "./document.ts";

/** A manifest as a file, with the line by which editors find its schema. */
export function yamlOf(document: ManifestDocument): string {
  const schema = "# yaml-language-server: $schema=./node_modules/zae-limiter/manifest.schema.json\n";
  return `${schema}${stringify(document, { lineWidth: 0, aliasDuplicateObjects: false })}`;
}
