/*
 * OpenSSL's headers beside our err.h: its types.h has a typedef ERR_STATE, which is one of
 * our codes. Include this instead of <openssl/...>, then what else is needed of OpenSSL.
 */
#ifndef COMMON_OSSL_H
#define COMMON_OSSL_H

#define ERR_STATE ossl_ERR_STATE
#include <openssl/types.h>
#include <openssl/err.h>
#undef ERR_STATE

#include <openssl/crypto.h>
#include <openssl/evp.h>

#endif
