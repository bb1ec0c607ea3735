import { ValidationError } from "../../domain/names/errors.ts";

export interface EndpointChoice {
  readonly region: string;
  /** An address instead of the region's, such as `http://localhost:8000`. */
  readonly endpoint: string | undefined;
  readonly useFips: boolean;
  readonly useDualStack: boolean;
}

export interface Endpoint {
  /** Scheme, host and port: `https://dynamodb.eu-west-1.amazonaws.com`. */
  readonly origin: string;
  /** The `host` header: with the port, unless it is the scheme's default. */
  readonly host: string;
  readonly path: string;
  readonly signingRegion: string;
}

/** The endpoint of a region, as the AWS SDK resolves it without an account id. */
export function resolveEndpoint(choice: EndpointChoice): Endpoint {
  const region = realRegion(choice.region);
  if (!/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(region)) {
    throw new ValidationError(
      "region_invalid",
      `${JSON.stringify(choice.region)} is not an AWS region; pass one such as "eu-west-1".`,
    );
  }
  const useFips = choice.useFips || isFipsRegion(choice.region);
  const { useDualStack } = choice;
  if (choice.endpoint !== undefined) {
    refuseWith("a custom endpoint", { useFips, useDualStack });
    return parsed(choice.endpoint, region);
  }
  if (region === "local") {
    refuseWith('region "local"', { useFips, useDualStack });
    return parsed("http://localhost:8000", "us-east-1");
  }
  const partition = PARTITIONS.find(({ regions }) => regions.test(region)) ?? AWS;
  const suffix = useDualStack ? partition.dualStackSuffix : partition.suffix;
  return parsed(`https://${service(partition, { useFips, useDualStack })}.${region}.${suffix}`, region);
}

interface Partition {
  readonly regions: RegExp;
  readonly suffix: string;
  readonly dualStackSuffix: string;
}

/** Used if no pattern matches, for regions newer than this table. */
const AWS: Partition = {
  regions: /^((us|eu|ap|sa|ca|me|af|il|mx)-\w+-\d+|aws-global)$/,
  suffix: "amazonaws.com",
  dualStackSuffix: "api.aws",
};

const US_GOV: Partition = {
  regions: /^(us-gov-\w+-\d+|aws-us-gov-global)$/,
  suffix: "amazonaws.com",
  dualStackSuffix: "api.aws",
};

const PARTITIONS: readonly Partition[] = [
  AWS,
  US_GOV,
  {
    regions: /^(cn-\w+-\d+|aws-cn-global)$/,
    suffix: "amazonaws.com.cn",
    dualStackSuffix: "api.amazonwebservices.com.cn",
  },
  { regions: /^eusc-de-\w+-\d+$/, suffix: "amazonaws.eu", dualStackSuffix: "api.amazonwebservices.eu" },
  { regions: /^(us-iso-\w+-\d+|aws-iso-global)$/, suffix: "c2s.ic.gov", dualStackSuffix: "api.aws.ic.gov" },
  { regions: /^(us-isob-\w+-\d+|aws-iso-b-global)$/, suffix: "sc2s.sgov.gov", dualStackSuffix: "api.aws.scloud" },
  {
    regions: /^(eu-isoe-\w+-\d+|aws-iso-e-global)$/,
    suffix: "cloud.adc-e.uk",
    dualStackSuffix: "api.cloud-aws.adc-e.uk",
  },
  { regions: /^(us-isof-\w+-\d+|aws-iso-f-global)$/, suffix: "csp.hci.ic.gov", dualStackSuffix: "api.aws.hci.ic.gov" },
];

/** GovCloud has no FIPS endpoint by name: its plain one is FIPS already. Its dual-stack one has the name again. */
function service(partition: Partition, how: { useFips: boolean; useDualStack: boolean }): string {
  return how.useFips && (partition !== US_GOV || how.useDualStack) ? "dynamodb-fips" : "dynamodb";
}

function isFipsRegion(region: string): boolean {
  return region.startsWith("fips-") || region.endsWith("-fips");
}

/** Old configurations write FIPS into the region, such as `fips-us-east-1`. */
function realRegion(region: string): string {
  if (!isFipsRegion(region)) return region;
  if (region === "fips-aws-global" || region === "aws-fips") return "us-east-1";
  return region.replace(/fips-(dkr-|prod-)?|-fips/, "");
}

function refuseWith(what: string, how: { useFips: boolean; useDualStack: boolean }): void {
  const asked = how.useFips ? "useFips" : how.useDualStack ? "useDualStack" : undefined;
  if (asked === undefined) return;
  throw new ValidationError("endpoint_invalid", `${asked} cannot be combined with ${what}; leave one of them out.`);
}

/** An address for messages, without user and query, which may have passwords. */
export function shownAddress(text: string): string {
  const [scheme = ""] = /^[a-z][a-z0-9+.-]*:\/\//i.exec(text) ?? [];
  const rest = text
    .slice(scheme.length)
    .replace(/^.*@/s, "***@")
    .replace(/[?#=\s].*$/s, "***");
  return JSON.stringify(`${scheme}${rest}`);
}

function parsed(text: string, signingRegion: string): Endpoint {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text) && URL.canParse(`http://${text}`)) {
    throw new ValidationError(
      "endpoint_invalid",
      `The endpoint ${shownAddress(text)} has no scheme; pass ${shownAddress(`http://${text}`)} or ` +
        `${shownAddress(`https://${text}`)}.`,
    );
  }
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "" || url.username !== "") {
    throw new ValidationError(
      "endpoint_invalid",
      `${shownAddress(text)} is not an endpoint; pass a URL such as "http://localhost:8000", without user and query.`,
    );
  }
  return { origin: url.origin, host: url.host, path: url.pathname, signingRegion };
}
