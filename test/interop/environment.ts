import { pythonWith } from "../engines/python-environment.ts";

/** The release of the original that is promised to get along with us. */
export const RELEASE = "0.17.0";

/** A Python that has the original; fetched the first time, kept outside of the repository. */
export function fetchedOriginal(): Promise<string> {
  return pythonWith({
    name: `original-${RELEASE}`,
    what: `release ${RELEASE} of the original`,
    install: [`zae-limiter==${RELEASE}`],
  });
}
