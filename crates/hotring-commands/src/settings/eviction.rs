//! The values of `maxmemory-policy`: Redis's names of the store's policies, and `heat`, which Redis does not have.

use hotring_store::EvictionPolicy;

/// The policy's name.
pub fn policy_name(policy: EvictionPolicy) -> &'static str {
    match policy {
        EvictionPolicy::NoEviction => "noeviction",
        EvictionPolicy::Heat => "heat",
        EvictionPolicy::AllKeysLru => "allkeys-lru",
        EvictionPolicy::AllKeysLfu => "allkeys-lfu",
        EvictionPolicy::AllKeysRandom => "allkeys-random",
        EvictionPolicy::ExpiringLru => "volatile-lru",
        EvictionPolicy::ExpiringLfu => "volatile-lfu",
        EvictionPolicy::ExpiringRandom => "volatile-random",
        EvictionPolicy::ExpiringTtl => "volatile-ttl",
    }
}

/// The policy of this name.
pub(crate) fn parse_policy(text: &str) -> Result<EvictionPolicy, String> {
    let mut policies = EvictionPolicy::ALL.into_iter();
    policies.find(|policy| policy_name(*policy).eq_ignore_ascii_case(text)).ok_or_else(|| {
        let names = EvictionPolicy::ALL.map(policy_name);
        format!("must be one of the following: {}", names.join(", "))
    })
}
