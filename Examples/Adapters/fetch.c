/* SPDX-License-Identifier: MIT */
/*
 * Fetches all the addresses that are its arguments at the same time, by libcurl; each has two seconds.
 */
#include <runloop/adapters/libcurl.h>

#include <stdio.h>

static size_t count_bytes(char *bytes, size_t size, size_t count, void *info) {
    (void)bytes;
    *(size_t *)info += size * count;
    return size * count;
}

static void done(CURL *easy, CURLcode result, void *info) {
    size_t *length;
    char *address;
    (void)info;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &length);
    curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &address);
    printf("%s: %zu bytes, %s\n", address, *length, curl_easy_strerror(result));
    curl_easy_cleanup(easy);
}

int main(int count, char **arguments) {
    size_t lengths[64] = {0};
    CURLM *multi = curl_multi_init();
    RLCurlRef transfers = RLCurlAttach(multi, RLGetCurrent(), kRLDefaultMode, done, NULL);
    for (int i = 1; i < count && i < 64; i++) {
        CURL *easy = curl_easy_init();
        curl_easy_setopt(easy, CURLOPT_URL, arguments[i]);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 2000L);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_bytes);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, &lengths[i]);
        curl_easy_setopt(easy, CURLOPT_PRIVATE, &lengths[i]);
        curl_multi_add_handle(multi, easy);
    }
    RLRun(); /* until no transfer is left */
    RLCurlDetach(transfers);
    curl_multi_cleanup(multi);
    return 0;
}
