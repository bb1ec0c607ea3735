import type { DeclaredPiece } from "../domain/config/piece.ts";
import { ValidationError } from "../domain/names/errors.ts";

/** What a file declares. */
export interface Manifest {
  /** The namespace. Absent: that of the limiter it is planned on. */
  readonly namespace?: string;
  /** The owner of the pieces. Absent: the owner that `planManifest` is given, else `default`. */
  readonly owner?: string;
  /** The declared pieces. */
  readonly pieces: readonly DeclaredPiece[];
  /** Declarations that can be applied but are probably mistakes. */
  readonly warnings: readonly string[];
  /** The text that it was read from, for saved plans. */
  readonly text?: string;
}

/** The kind of a problem. It does not change between versions. */
export type ProblemCode =
  | "yaml_syntax"
  | "empty"
  | "key_unknown"
  | "key_duplicate"
  | "key_missing"
  | "name_invalid"
  | "value_invalid"
  | "limit_invalid"
  | "cron_invalid";

/** One thing that is wrong with a manifest, and where. */
export interface ManifestProblem {
  /** The line, from 1. */
  readonly line: number;
  /** The column, from 1. */
  readonly column: number;
  /** A JSON pointer to the place: `/resources/gpt-4/limits/rpm/capacity`. */
  readonly path: string;
  /** The code. It does not change between versions: programs may branch on it. */
  readonly code: ProblemCode;
  /** What is wrong, with the value and the remedy. */
  readonly message: string;
}

/** Everything that is wrong with a manifest, at once. */
export class ManifestInvalid extends ValidationError {
  /** The name of the file, if the text came from one. */
  readonly file: string | undefined;
  /** The problems, in the order of the file. */
  readonly problems: readonly ManifestProblem[];

  /** @internal */
  constructor(file: string | undefined, problems: readonly ManifestProblem[]) {
    const where = file === undefined ? "" : `${file}:`;
    super(
      "manifest_invalid",
      problems.map(({ line, column, message }) => `${where}${line}:${column}: ${message}`).join("\n"),
    );
    this.file = file;
    this.problems = problems;
  }

  override toJSON(): Record<string, unknown> {
    return { ...super.toJSON(), ...(this.file === undefined ? {} : { file: this.file }), problems: this.problems };
  }
}

/** The owner of a manifest that names none. */
export const OWNER_DEFAULT = "default";
