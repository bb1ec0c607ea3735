import type { Access } from "../../domain/config.ts";
import { type PolicyMember, setPolicyCommand, showPolicyCommand } from "../policy-commands.ts";

const ACCESS: PolicyMember<Access | "inherit"> = {
  name: "access",
  argument: ["<mode>", "disabled, bypass, enforce or inherit"],
  valueByWord: { disabled: "disabled", bypass: "bypass", enforce: "enforce", inherit: "inherit" },
  examples: {
    set: ["zae-limiter access set disabled -e key-1 -r gpt-4", "zae-limiter access set inherit -e key-1 -r gpt-4"],
    show: "zae-limiter access show -e key-1 -r gpt-4",
  },
  set: (limiter, ...given) => limiter.setAccess(...given),
};

export const accessSet = setPolicyCommand(ACCESS);
export const accessShow = showPolicyCommand(ACCESS);
