"""One process that computes, and gets on."""


def sieve(limit):
    prime = [True] * limit
    for number in range(2, int(limit**0.5) + 1):
        if prime[number]:
            prime[number * number :: number] = [False] * len(prime[number * number :: number])
    return prime


def count(prime):
    return sum(1 for number, is_prime in enumerate(prime) if is_prime and number > 1)


print("ready", flush=True)
limit = 100_000
while True:
    count(sieve(limit))
    limit += 1
